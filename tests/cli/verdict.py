# SPDX-License-Identifier: Apache-2.0
"""What a seccomp profile says of a call, as runtimes and libseccomp read it: written from their
documentation, not from the program under test."""

import operator

PERMITTING = {"SCMP_ACT_ALLOW", "SCMP_ACT_LOG", "SCMP_ACT_TRACE", "SCMP_ACT_NOTIFY"}
COMPARISONS = {"SCMP_CMP_NE": operator.ne, "SCMP_CMP_LT": operator.lt, "SCMP_CMP_LE": operator.le,
               "SCMP_CMP_EQ": operator.eq, "SCMP_CMP_GE": operator.ge, "SCMP_CMP_GT": operator.gt}


def names(rule):
    return [rule["name"]] if rule.get("name") else rule.get("names", [])


# By profile, which is kept so that no other gets its id: the rules of each call.
_indices = {}


def _rules(profile, call):
    if id(profile) not in _indices:
        index = {}
        for rule in profile.get("syscalls") or []:
            for name in names(rule):
                index.setdefault(name, []).append(rule)
        _indices[id(profile)] = profile, index
    return _indices[id(profile)][1].get(call, [])


def _holds(condition, arguments):
    value, argument = condition["value"], arguments[condition["index"]]
    if condition["op"] == "SCMP_CMP_MASKED_EQ":
        return argument & value == condition.get("valueTwo", 0)
    return COMPARISONS[condition["op"]](argument, value)


def _matches(rule, arguments, capabilities):
    wanted = set((rule.get("includes") or {}).get("caps") or ())
    unwanted = set((rule.get("excludes") or {}).get("caps") or ())
    if not wanted <= capabilities or unwanted & capabilities:
        return False
    conditions = rule.get("args") or []
    indices = [condition["index"] for condition in conditions]
    alternatives = len(set(indices)) < len(indices)
    return (any if alternatives and conditions else all)(
        _holds(condition, arguments) for condition in conditions)


def verdicts(profile, call, arguments, capabilities=frozenset()):
    """The actions of all rules that match; that of the profile if there is none."""
    found = {(rule["action"], rule.get("errnoRet")) for rule in _rules(profile, call)
             if _matches(rule, arguments, capabilities)}
    return found or {(profile["defaultAction"], profile.get("defaultErrnoRet"))}


def permits(profile, call, arguments, capabilities=frozenset()):
    found = verdicts(profile, call, arguments, capabilities)
    return any(action in PERMITTING for action, _ in found)
