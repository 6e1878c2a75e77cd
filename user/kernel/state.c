/* SPDX-License-Identifier: Apache-2.0 */
/* The states of Environments: abi/state.h. */
#include "kernel_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#define STATES_BYTES (PG_ENVIRONMENT_MAX * sizeof(struct pg_state))

static int states_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_states);
}

void pg_states_map(struct pg_kernel *kernel)
{
	void *states =
		mmap(NULL, STATES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, states_fd(kernel), 0);

	kernel->states = states == MAP_FAILED ? NULL : states;
}

void pg_states_unmap(struct pg_kernel *kernel)
{
	if (kernel->states)
		munmap(kernel->states, STATES_BYTES);
	kernel->states = NULL;
}

static int read_word(struct pg_kernel *kernel, uint32_t index, uint64_t *ret_word)
{
	if (kernel->states) {
		*ret_word = __atomic_load_n(&kernel->states[index], __ATOMIC_ACQUIRE);
		return 0;
	}
	return bpf_map_lookup_elem(states_fd(kernel), &index, ret_word) ? -errno : 0;
}

static int write_word(struct pg_kernel *kernel, uint32_t index, uint64_t word)
{
	if (kernel->states) {
		/* In order with all before and after: whoever hears of the switch sees it. */
		__atomic_store_n(&kernel->states[index], word, __ATOMIC_SEQ_CST);
		return 0;
	}
	return bpf_map_update_elem(states_fd(kernel), &index, &word, BPF_EXIST) ? -errno : 0;
}

static int refuse_index(uint32_t index, struct pg_error *err)
{
	if (index && index < PG_ENVIRONMENT_MAX)
		return 0;
	return pg_fail(err, -ERANGE, "%" PRIu32 " is not the index of a state", index);
}

int pg_state_take(struct pg_kernel *kernel, uint32_t *ret_index, struct pg_error *err)
{
	const uint32_t index = pg_slot_take(kernel, &kernel->state_slots);
	int error;

	if (!index)
		return pg_fail(err, -ENOSPC, "there are %d Environments already",
			       PG_ENVIRONMENT_MAX - 1);
	pg_accepted_forget(kernel, index);
	error = write_word(kernel, index, 0);
	if (error) {
		pg_slot_release(&kernel->state_slots, index);
		return pg_fail_errno(err, error, "clearing state %" PRIu32, index);
	}
	*ret_index = index;
	return 0;
}

int pg_state_occupy(struct pg_kernel *kernel, uint32_t index, struct pg_error *err)
{
	int error = refuse_index(index, err);

	if (error)
		return error;
	if (!pg_slot_occupy(&kernel->state_slots, index))
		return pg_fail(err, -EEXIST, "state %" PRIu32 " belongs to another Environment",
			       index);
	return 0;
}

void pg_state_release(struct pg_kernel *kernel, uint32_t index)
{
	if (!index)
		return;
	write_word(kernel, index, 0);
	pg_accepted_forget(kernel, index);
	pg_slot_retire(&kernel->state_slots, index);
}

int pg_state_write(struct pg_kernel *kernel, uint32_t index, const struct pg_state_value *value,
		   struct pg_error *err)
{
	int error = refuse_index(index, err);

	if (error)
		return error;
	if (value->bank >= PG_BANK_COUNT || value->phase < PG_PHASE_NONE ||
	    value->phase >= PG_PHASE_COUNT || value->generation >> (64 - PG_STATE_GENERATION_SHIFT))
		return pg_fail(err, -ERANGE, "phase %d of bank %u is no state", value->phase,
			       value->bank);
	error = write_word(kernel, index,
			   value->generation << PG_STATE_GENERATION_SHIFT |
				   value->bank << PG_STATE_BANK_SHIFT |
				   (uint64_t)(value->phase + 1));
	return error ? pg_fail_errno(err, error, "writing state %" PRIu32, index) : 0;
}

int pg_state_read(struct pg_kernel *kernel, uint32_t index, struct pg_state_value *ret_value,
		  struct pg_error *err)
{
	uint64_t word;
	int error = refuse_index(index, err);

	if (!error) {
		error = read_word(kernel, index, &word);
		if (error)
			pg_fail_errno(err, error, "reading state %" PRIu32, index);
	}
	if (error)
		return error;
	*ret_value = (struct pg_state_value){
		.generation = word >> PG_STATE_GENERATION_SHIFT,
		.bank = (unsigned int)(word >> PG_STATE_BANK_SHIFT) & PG_STATE_BANK_MASK,
		.phase = (int)(word & PG_STATE_PHASE_MASK) - 1,
	};
	return 0;
}

size_t pg_states_sweep(struct pg_kernel *kernel)
{
	size_t swept = 0;

	for (uint32_t i = 1; i < PG_ENVIRONMENT_MAX; i++) {
		uint64_t word;

		if (pg_slot_is_used(&kernel->state_slots, i) || read_word(kernel, i, &word) ||
		    !word)
			continue;
		write_word(kernel, i, 0);
		swept++;
	}
	return swept;
}
