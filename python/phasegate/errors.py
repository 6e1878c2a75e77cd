# SPDX-License-Identifier: Apache-2.0
"""What can go wrong: one class for each code of the API, and a few for what is no reply at all."""

from __future__ import annotations

from typing import Any, ClassVar, Dict, Mapping, Optional, Tuple, Type

from .model import Diagnostic, Exposure, Malformed, Phase, Survivor, decode

__all__ = [
    "PhasegateError", "AgentUnavailableError", "ConnectionLostError", "ReplyTimeoutError",
    "ProtocolError", "LeaseLostError", "UnsupportedError", "ApiError", "RequestInvalidError",
    "NameInvalidError", "PeerRefusedError", "NotPermittedError", "MemberNotYoursError",
    "RouteNotFoundError", "EnvironmentNotFoundError", "MethodNotAllowedError",
    "EnvironmentExistsError", "NameTakenError", "MemberTakenError", "MemberPopulatedError",
    "MemberHoldsOthersError", "ContainerNotRunningError", "GenerationMismatchError",
    "SurvivorsPresentError", "VerifierOnHostError", "EnvironmentPopulatedError",
    "CursorExpiredError", "BodyTooLargeError", "MediaTypeUnsupportedError",
    "PolicyInvalidError", "MemberNotFoundError",
    "MemberIsRootError", "MemberHoldsCallerError", "MemberUnfitError", "ContainerNotFoundError",
    "ContainerUnsupportedError", "ExposureRefusedError", "NoResolverError", "LeaseWiderError",
    "InternalError",
    "EnforcementFailedError", "TooManyEnvironmentsError", "TooManyClientsError",
    "OutOfMemoryError", "RuntimeUnavailableError", "StoppingError", "QuotaExceededError",
    "BusyError",
]


class PhasegateError(Exception):
    """Base of all of them."""


class AgentUnavailableError(PhasegateError):
    """Nobody serves the socket, and the time that a restart may take is over. Nothing was sent."""


class ConnectionLostError(PhasegateError):
    """The request was sent and no reply came: it has taken effect or it has not. Look before you
    decide; creating again, and setting the same phase again, are harmless."""


class ReplyTimeoutError(ConnectionLostError):
    """The same, since the time for it is over."""


class ProtocolError(PhasegateError):
    """The reply is not one of this API."""


class LeaseLostError(PhasegateError):
    """The phase did not stay in force until the end: its lease was over, or somebody switched."""


class UnsupportedError(PhasegateError):
    """This host cannot enforce what is needed: refuse to run, rather than run weaker."""


class ApiError(PhasegateError):
    """A refusal by the agent; nothing was changed unless the message says otherwise. Only a code
    that this version does not know raises this class itself."""

    code: ClassVar[str] = ""
    status: ClassVar[int] = 0
    classes: ClassVar[Dict[str, Type[ApiError]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        ApiError.classes[cls.code] = cls

    def __init__(self, body: Mapping[str, Any], http_status: int) -> None:
        self.body = body
        self.http_status = http_status
        self.api_code = str(body.get("code", ""))
        self.message = str(body.get("message", ""))
        self.object: Optional[str] = body.get("object")
        self.next_step = str(body.get("next_step", ""))
        about = f" ({self.object})" if self.object else ""
        super().__init__(f"{self.api_code}: {self.message}{about}; {self.next_step}")

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (dict(self.body), self.http_status)

    @staticmethod
    def of(body: Mapping[str, Any], http_status: int) -> ApiError:
        return ApiError.classes.get(str(body.get("code")), ApiError)(body, http_status)


class RequestInvalidError(ApiError):
    code, status = "request_invalid", 400


class NameInvalidError(ApiError):
    code, status = "name_invalid", 400


class PeerRefusedError(ApiError):
    code, status = "peer_refused", 403


class NotPermittedError(ApiError):
    code, status = "not_permitted", 403


class MemberNotYoursError(ApiError):
    code, status = "member_not_yours", 403


class RouteNotFoundError(ApiError):
    code, status = "route_not_found", 404


class EnvironmentNotFoundError(ApiError):
    code, status = "environment_not_found", 404


class MethodNotAllowedError(ApiError):
    code, status = "method_not_allowed", 405


class EnvironmentExistsError(ApiError):
    code, status = "environment_exists", 409


class NameTakenError(ApiError):
    code, status = "name_taken", 409


class MemberTakenError(ApiError):
    code, status = "member_taken", 409


class MemberPopulatedError(ApiError):
    code, status = "member_populated", 409


class MemberHoldsOthersError(ApiError):
    code, status = "member_holds_others", 409


class ContainerNotRunningError(ApiError):
    code, status = "container_not_running", 409


class GenerationMismatchError(ApiError):
    """phase, denied and generation are those in force."""

    code, status = "generation_mismatch", 409

    @property
    def phase(self) -> Phase:
        phase: Phase = decode(Phase, self.body["phase"], "/phase")
        return phase

    @property
    def denied(self) -> bool:
        return bool(self.body.get("denied", False))

    @property
    def generation(self) -> int:
        return int(self.body["generation"])


class SurvivorsPresentError(ApiError):
    code, status = "survivors_present", 409

    @property
    def survivors(self) -> Tuple[Survivor, ...]:
        return tuple(decode(Survivor, one) for one in self.body.get("survivors", ()))


class VerifierOnHostError(ApiError):
    code, status = "verifier_on_host", 409


class EnvironmentPopulatedError(ApiError):
    code, status = "environment_populated", 409


class CursorExpiredError(ApiError):
    code, status = "cursor_expired", 410

    @property
    def oldest(self) -> int:
        """The cursor to go on from."""
        return int(self.object or 0)


class BodyTooLargeError(ApiError):
    code, status = "body_too_large", 413


class MediaTypeUnsupportedError(ApiError):
    code, status = "media_type_unsupported", 415


class PolicyInvalidError(ApiError):
    code, status = "policy_invalid", 422
    # Errors of the policy in the text, which is what a traceback has.
    _SHOWN: ClassVar[int] = 5

    def __str__(self) -> str:
        lines = [super().__str__()]
        try:
            errors = self.errors
        except Malformed:
            return lines[0]
        for one in errors[:self._SHOWN]:
            read = f": {one.value!r}" if one.value is not None else ""
            hint = f"; write {one.hint!r}" if one.hint is not None else ""
            lines.append(f"  {one.object}: {one.message}{read}{hint}")
        if len(errors) > self._SHOWN:
            lines.append(f"  and {len(errors) - self._SHOWN} more")
        return "\n".join(lines)

    @property
    def errors(self) -> Tuple[Diagnostic, ...]:
        """Every entry at fault, with what to write instead."""
        return tuple(decode(Diagnostic, one) for one in self.body.get("errors", ()))

    @property
    def warnings(self) -> Tuple[Diagnostic, ...]:
        return tuple(decode(Diagnostic, one) for one in self.body.get("warnings", ()))


class MemberNotFoundError(ApiError):
    code, status = "member_not_found", 422


class MemberIsRootError(ApiError):
    code, status = "member_is_root", 422


class MemberHoldsCallerError(ApiError):
    code, status = "member_holds_caller", 422


class MemberUnfitError(ApiError):
    code, status = "member_unfit", 422


class ContainerNotFoundError(ApiError):
    code, status = "container_not_found", 422


class ContainerUnsupportedError(ApiError):
    code, status = "container_unsupported", 422


class ExposureRefusedError(ApiError):
    code, status = "exposure_refused", 422

    @property
    def exposures(self) -> Tuple[Exposure, ...]:
        """All that are refused."""
        fields = ("id", "member", "message")
        return tuple(decode(Exposure, {name: one[name] for name in fields if name in one})
                     for one in self.body.get("exposures", ()))


class NoResolverError(ApiError):
    code, status = "no_resolver", 422


class LeaseWiderError(ApiError):
    code, status = "lease_wider", 422


class InternalError(ApiError):
    code, status = "internal", 500


class EnforcementFailedError(ApiError):
    code, status = "enforcement_failed", 500


class TooManyEnvironmentsError(ApiError):
    code, status = "too_many_environments", 503


class QuotaExceededError(ApiError):
    code, status = "quota_exceeded", 503


class TooManyClientsError(ApiError):
    code, status = "too_many_clients", 503


class BusyError(ApiError):
    code, status = "busy", 503


class OutOfMemoryError(ApiError):
    code, status = "out_of_memory", 503


class RuntimeUnavailableError(ApiError):
    code, status = "runtime_unavailable", 503


class StoppingError(ApiError):
    code, status = "stopping", 503
