// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/compute"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// job is one task, with operands and result of this host.
type job struct {
	Kernel task.KernelID
	In     []operand
	Type   task.Type // type of the result
	Shape  task.Shape
}

// Check judges number, types and shapes of the operands, as the server does.
func (j *job) Check() error {
	var in []task.Operand
	for _, o := range j.In {
		in = append(in, task.Operand{Length: uint32(len(o.Data)), Type: o.Type, Shape: o.Shape})
	}
	return task.Builtin().Kernel(j.Kernel).Check(task.Operand{Length: uint32(j.bytes()), Type: j.Type, Shape: j.Shape}, in)
}

// bytes is the length of the result.
func (j *job) bytes() int {
	n := int(j.Type.Size())
	for _, extent := range j.Shape[:j.Shape.Dims()] {
		n *= int(extent)
	}
	return n
}

// Run has a server execute the task, and returns the result.
func (j *job) Run(ctx context.Context, dev verbs.Device, server string) (result []byte, err error) {
	c, err := compute.Dial(ctx, dev, server, compute.ClientConfig{Depth: 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	d := task.Descriptor{Kernel: j.Kernel}
	for _, o := range j.In {
		mem, err := rdma.Alloc(dev, len(o.Data))
		if err != nil {
			return nil, err
		}
		copy(mem, o.Data)
		operand, err := c.Register(mem, o.Type, o.Shape)
		if err != nil {
			return nil, err
		}
		d.Operands = append(d.Operands, operand)
	}
	mem, err := rdma.Alloc(dev, j.bytes())
	if err != nil {
		return nil, err
	}
	if d.Result, err = c.Register(mem, j.Type, j.Shape); err != nil {
		return nil, err
	}
	if err := c.Do(ctx, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", server, err)
	}
	return append([]byte(nil), mem...), nil
}
