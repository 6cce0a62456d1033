// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"io"
)

// DeviceMemory is an optional interface of a PD whose device has memory of its own, such as the DDR
// of a card (S2.1). It is what ibv_alloc_dm and ibv_reg_dm_mr are in libibverbs. A device that can
// access its own memory only refuses RegMR with an error that wraps errors.ErrUnsupported.
type DeviceMemory interface {
	// AllocDM reserves memory of the device and registers it.
	AllocDM(bytes int, access Access) (DM, error)
}

// DM is a region whose memory belongs to it: Deregister frees the memory too. Programs access the
// memory by ReadAt and WriteAt, with offsets from 0 to Len. An access that goes beyond the end is
// an error; a WriteAt then writes nothing.
type DM interface {
	MR
	io.ReaderAt
	io.WriterAt
}

// Registrar is the part of a PD that NewMemory needs.
type Registrar interface {
	RegMR(b []byte, access Access) (MR, error)
}

// NewMemory makes and registers memory, for programs that work with every device: memory of the
// device if pd implements DeviceMemory, and memory of this process otherwise.
func NewMemory(pd Registrar, bytes int, access Access) (DM, error) {
	if d, ok := pd.(DeviceMemory); ok {
		return d.AllocDM(bytes, access)
	}
	if bytes < 1 {
		return nil, fmt.Errorf("%w: %d bytes", ErrRange, bytes)
	}
	b := make([]byte, bytes)
	mr, err := pd.RegMR(b, access)
	if err != nil {
		return nil, err
	}
	return hostMemory{mr, Bytes(b)}, nil
}

// hostMemory is a DM in the memory of this process.
type hostMemory struct {
	MR
	Bytes
}

// Bytes is memory of this process with the methods of a DM.
type Bytes []byte

// ReadAt implements io.ReaderAt.
func (b Bytes) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(b)) {
		return 0, fmt.Errorf("%w: offset %d of %d bytes", ErrRange, off, len(b))
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt.
func (b Bytes) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(b)) || len(p) > len(b)-int(off) {
		return 0, fmt.Errorf("%w: %d bytes at offset %d of %d bytes", ErrRange, len(p), off, len(b))
	}
	return copy(b[off:], p), nil
}
