// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/softroce/softroce-xdp/rocev2/task"
)

// printResult writes elements as text: a vector one a line, the others a row a line.
func printResult(w io.Writer, b []byte, t task.Type, s task.Shape) error {
	row := int(s[max(1, s.Dims())-1])
	if s.Dims() < 2 {
		row = 1
	}
	out := bufio.NewWriter(w)
	size := int(t.Size())
	for i := 0; i < len(b)/size; i++ {
		fmt.Fprint(out, element(b[i*size:], t))
		if (i+1)%row == 0 {
			fmt.Fprintln(out)
		} else {
			fmt.Fprint(out, " ")
		}
	}
	return out.Flush()
}

// element reads the first element.
func element(b []byte, t task.Type) any {
	le := binary.LittleEndian
	switch t {
	case task.Int8:
		return int8(b[0])
	case task.Int16:
		return int16(le.Uint16(b))
	case task.Int32:
		return int32(le.Uint32(b))
	case task.Int64:
		return int64(le.Uint64(b))
	case task.Uint8:
		return b[0]
	case task.Uint16:
		return le.Uint16(b)
	case task.Uint32:
		return le.Uint32(b)
	case task.Uint64:
		return le.Uint64(b)
	case task.Float32:
		return math.Float32frombits(le.Uint32(b))
	}
	return math.Float64frombits(le.Uint64(b))
}
