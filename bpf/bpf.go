// SPDX-License-Identifier: Apache-2.0

// Package bpf has the data plane: the C sources (softroce.bpf.c and lib/), the object
// compiled from them, and the Go types of the structures that C and Go share.
//
// The object is committed, so building the product needs no clang. After a
// change of the C sources run `make generate` (clang-19, libbpf headers); CI
// fails if the committed object differs from what the sources give.
package bpf

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -cflags "-O2 -g -Wall -Wextra -Wno-unused-parameter -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu -fdebug-prefix-map=../=" -target bpfel -type sr_config -type sr_event -type sr_event_type -type sr_pacer -type sr_cap -type sr_flow -type sr_agent_op -type sr_agent_set -type agent_slot -type engine_slot -type sr_engine_flag -type sr_engine_report -type sr_engine_found -type sr_hello_proof -type steer -type cm_request -type cm_id -type rate_limit -type arrival_limit -type arrival_count -type limit_words -type own_words -type own_pair -type sr_own -type rx_meta -type dest_key -type dest_regs -type policy_regs -type policy_params -type priority_params -type priority_state Softroce softroce.bpf.c
