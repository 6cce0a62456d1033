// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
)

// RunExchange calls the exchange program for the first n slots of the mailbox and
// returns how many it filled. op is one of ExchangeCollect, ExchangeApply and
// ExchangeRead. The mailbox has one user at a time.
func RunExchange(prog *ebpf.Program, op uint32, n int) (int, error) {
	var request [16]byte // struct exchange_ctx
	binary.NativeEndian.PutUint32(request[0:], op)
	binary.NativeEndian.PutUint32(request[4:], uint32(n))
	done, err := prog.Run(&ebpf.RunOptions{Data: request[:]})
	if err != nil {
		return 0, fmt.Errorf("exchange program: %w", err)
	}
	if done == exchangeError {
		return 0, fmt.Errorf("exchange program: unknown operation %d", op)
	}
	return int(done), nil
}
