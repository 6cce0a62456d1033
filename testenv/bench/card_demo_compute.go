// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// showTask has the cores of a card compute the CRC-32C of 1 MB of its memory (S1.1).
func showTask(ctx context.Context, _ *cardProduct) (err error) {
	step("Compute: a core of a card (its model) computes the CRC-32C of 1 MB of card memory.")
	h, err := newHost(1)
	if err != nil {
		return err
	}
	cores, err := h.model.StartTasks()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cores.Close(ctx)) }()
	data := make([]byte, dataBytes)
	for i := range data {
		data[i] = byte(i * i >> 3)
	}
	if _, err := h.card.DDR().WriteAt(data, dataAddr); err != nil {
		return err
	}
	result, err := h.dev.RegMR(driver.Spec{PD: h.pd.Number(), Addr: 3 << 30, VA: 3 << 30, Len: 4096, Access: verbs.AccessLocalWrite})
	if err != nil {
		return err
	}
	tasks, err := h.dev.StartTasks(ctx, h.pd.Number(), 16)
	if err != nil {
		return err
	}
	_, err = tasks.Submit(task.Descriptor{
		Kernel:   task.KernelCRC32C,
		Operands: []task.Operand{{VA: dataAddr, Length: dataBytes, Key: h.region.LKey(), Type: task.Uint8, Shape: task.Shape{dataBytes}}},
		Result:   task.Operand{VA: result.VA(), Length: 4, Key: result.LKey(), Type: task.Uint32, Shape: task.Shape{1}},
	})
	if err != nil {
		return err
	}
	answer, err := tasks.Wait(ctx)
	if err != nil {
		return err
	}
	b := make([]byte, 4)
	if _, err := h.card.DDR().ReadAt(b, 3<<30); err != nil {
		return err
	}
	got, want := binary.LittleEndian.Uint32(b), crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	fmt.Printf("  %v: %#08x; computed by the host: %#08x\n", answer.Status, got, want)
	if got != want {
		return errors.New("the card's CRC-32C is another one than the host's")
	}
	return tasks.Stop(ctx)
}
