// SPDX-License-Identifier: Apache-2.0

package task

import (
	"github.com/softroce/softroce-xdp/rocev2/mem"
)

// scratch is the memory of a core: copies of operands, and the result until it is written.
type scratch struct {
	buf []byte
	in  [MaxOperands][]byte
}

// keepBytes is how much memory a core keeps between tasks.
const keepBytes = 8 << 20

// execute runs a task: it reads the operands, computes, and writes the result.
func (s *scratch) execute(j *job) *Error {
	d := &j.task.Descriptor
	in, out := s.split(d)
	if err := j.read(in); err != nil {
		return err
	}
	clear(out)
	err := j.kernel.Run(j.from.ctx, d, in, out)
	if err != nil {
		if j.from.ctx.Err() != nil {
			return &Error{Status: StatusCanceled}
		}
		return fail(StatusFailed, "%v", err)
	}
	return j.write(out)
}

// split divides the scratch memory into operands and result.
func (s *scratch) split(d *Descriptor) (in [][]byte, out []byte) {
	n := int(d.total())
	buf := s.buf
	if len(buf) < n {
		buf = make([]byte, n)
		if n <= keepBytes {
			s.buf = buf
		}
	}
	in = s.in[:len(d.Operands)]
	for i := range in {
		n := int(d.Operands[i].Length)
		in[i], buf = buf[:n:n], buf[n:]
	}
	return in, buf[:d.Result.Length]
}

func (j *job) read(in [][]byte) *Error {
	if !j.from.enter() {
		return &Error{Status: StatusCanceled}
	}
	defer j.from.leave()
	d := &j.task.Descriptor
	for i := range in {
		if f := j.task.Memory.Read(&d.Operands[i], in[i]); f != mem.FaultNone {
			return fault("an operand", &d.Operands[i], f)
		}
	}
	return nil
}

func (j *job) write(out []byte) *Error {
	if !j.from.enter() {
		return &Error{Status: StatusCanceled}
	}
	defer j.from.leave()
	r := &j.task.Descriptor.Result
	if f := j.task.Memory.Write(r, out); f != mem.FaultNone {
		return fault("the result", r, f)
	}
	return nil
}
