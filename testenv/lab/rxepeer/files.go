// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer/internal/agent"
)

// Put writes a file in the machine, making the folders above it.
func (vm *VM) Put(ctx context.Context, path string, data []byte, mode os.FileMode) error {
	for off := 0; ; {
		n := min(len(data)-off, agent.MaxChunk)
		c := agent.Chunk{Path: path, Offset: int64(off), Mode: uint32(mode.Perm()), Data: data[off : off+n]}
		if err := vm.call(ctx, "Put", c, &agent.Empty{}); err != nil {
			return fmt.Errorf("rxepeer: put %s: %w", path, err)
		}
		if off += n; off == len(data) {
			return nil
		}
	}
}

// Get reads a file of the machine, also one of /proc or /sys.
func (vm *VM) Get(ctx context.Context, path string) ([]byte, error) {
	var all bytes.Buffer
	for {
		var got agent.Chunk
		c := agent.Chunk{Path: path, Offset: int64(all.Len()), Len: agent.MaxChunk}
		if err := vm.call(ctx, "Get", c, &got); err != nil {
			return nil, fmt.Errorf("rxepeer: get %s: %w", path, err)
		}
		all.Write(got.Data)
		if len(got.Data) < agent.MaxChunk {
			return all.Bytes(), nil
		}
	}
}

// GetAll reads the files of a folder of the machine, none of which is longer than 4096 bytes, as those of
// /sys are, by their names. It starts no process in the machine, where one costs some milliseconds.
func (vm *VM) GetAll(ctx context.Context, dir string) (map[string][]byte, error) {
	var all map[string][]byte
	if err := vm.call(ctx, "GetAll", dir, &all); err != nil {
		return nil, fmt.Errorf("rxepeer: get the files of %s: %w", dir, err)
	}
	return all, nil
}
