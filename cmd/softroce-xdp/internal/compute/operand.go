// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/softroce/softroce-xdp/rocev2/task"
)

// operand is an operand of a task, and its bytes.
type operand struct {
	Data  []byte
	Type  task.Type
	Shape task.Shape
}

// maxTaskBytes is the most that is read from a file: what an executor allows at most.
const maxTaskBytes = 1 << 30

// readOperand reads FILE:TYPE or FILE:TYPE:SHAPE, where SHAPE is for example 100 or 2x3, and without it
// all elements of the file. The file "-" is stdin. Elements are little-endian.
func readOperand(spec string, stdin io.Reader) (o operand, err error) {
	name, kind, shape, err := cutSpec(spec)
	if err != nil {
		return o, err
	}
	if o.Type, err = parseType(kind); err != nil {
		return o, err
	}
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return o, err
		}
		defer f.Close()
		in = f
	}
	if o.Data, err = io.ReadAll(io.LimitReader(in, maxTaskBytes+1)); err != nil {
		return o, err
	}
	if len(o.Data) > maxTaskBytes {
		return o, fmt.Errorf("%s has more than %d bytes", name, maxTaskBytes)
	}
	size := int(o.Type.Size())
	elements := len(o.Data) / size
	if elements == 0 || len(o.Data)%size != 0 {
		return o, fmt.Errorf("%s has %d bytes: %s needs whole elements of %d bytes, at least one", name, len(o.Data), o.Type, size)
	}
	if o.Shape = (task.Shape{uint32(elements)}); shape == "" {
		return o, nil
	}
	var count uint64
	if o.Shape, count, err = parseShape(shape); err == nil && count != uint64(elements) {
		err = fmt.Errorf("%s has %d elements of %s, and %s are %d", name, elements, o.Type, shape, count)
	}
	return o, err
}

// cutSpec divides FILE:TYPE[:SHAPE]. The name of the file may have colons.
func cutSpec(spec string) (name, kind, shape string, err error) {
	parts := strings.Split(spec, ":")
	n := len(parts)
	switch {
	case n >= 2 && isType(parts[n-1]):
		return strings.Join(parts[:n-1], ":"), parts[n-1], "", nil
	case n >= 3 && isType(parts[n-2]):
		return strings.Join(parts[:n-2], ":"), parts[n-2], parts[n-1], nil
	}
	return "", "", "", fmt.Errorf("%q: write FILE:TYPE or FILE:TYPE:SHAPE, for example a.bin:float64:100x200; types are %s", spec, types())
}

func isType(s string) bool { _, err := parseType(s); return err == nil }

// parseType returns the type of a name.
func parseType(s string) (task.Type, error) {
	for t := task.Type(0); t < 255; t++ {
		if t.Valid() && t.String() == s {
			return t, nil
		}
	}
	return 0, fmt.Errorf("there is no type %q: choose one of %s", s, types())
}

// types are the names of all types.
func types() string {
	var names []string
	for t := task.Type(0); t < 255; t++ {
		if t.Valid() {
			names = append(names, t.String())
		}
	}
	return strings.Join(names, ", ")
}

// parseShape reads for example 100 or 2x3, and returns how many elements that are.
func parseShape(s string) (shape task.Shape, count uint64, err error) {
	parts := strings.Split(s, "x")
	if len(parts) > len(shape) {
		return shape, 0, fmt.Errorf("shape %q: at most %d extents", s, len(shape))
	}
	count = 1
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 32)
		if err != nil || v == 0 {
			return shape, 0, fmt.Errorf("shape %q: write whole numbers with x between, for example 2x3", s)
		}
		shape[i] = uint32(v)
		if count *= v; count > maxTaskBytes {
			return shape, 0, fmt.Errorf("shape %q: at most %d bytes", s, maxTaskBytes)
		}
	}
	return shape, count, nil
}

// kernelNamed returns the number of a kernel of task.Builtin by its name.
func kernelNamed(name string) (task.KernelID, error) {
	b := task.Builtin()
	var names []string
	for _, id := range b.IDs() {
		if b.Name(id) == name {
			return id, nil
		}
		names = append(names, b.Name(id))
	}
	return 0, fmt.Errorf("there is no kernel %q: choose one of %s", name, strings.Join(names, ", "))
}

// resultOf returns the type and shape of what a kernel computes of operands. bins are those of histogram.
func resultOf(kernel task.KernelID, in []operand, bins uint32) (task.Type, task.Shape, error) {
	first := in[0]
	switch kernel {
	case task.KernelAdd:
		return first.Type, first.Shape, nil
	case task.KernelMin, task.KernelMax:
		return first.Type, task.Shape{1}, nil
	case task.KernelSum, task.KernelDot:
		return first.Type.Wide(), task.Shape{1}, nil
	case task.KernelGEMM:
		if len(in) < 2 {
			return 0, task.Shape{}, errors.New("gemm takes two matrices, or three")
		}
		return first.Type, task.Shape{first.Shape[0], in[1].Shape[1]}, nil
	case task.KernelCRC32C:
		return task.Uint32, task.Shape{1}, nil
	case task.KernelHistogram:
		if bins == 0 {
			return 0, task.Shape{}, errors.New("histogram needs --bins")
		}
		return task.Uint64, task.Shape{bins}, nil
	}
	return 0, task.Shape{}, fmt.Errorf("the result of kernel %d is not known here", kernel)
}
