// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"net/netip"
	"time"
)

// Side is one end of the cases: an implementation of verbs. A Judge is rxe in a machine; an
// adapter makes one of our engine. Calls on different objects may run side by side.
type Side interface {
	// Name tells the sides apart in messages.
	Name() string
	// Addr is the address that the side's GID of a family stands for.
	Addr(v6 bool) (netip.Addr, error)
	NewPD(ctx context.Context) (PD, error)
	NewCQ(ctx context.Context, depth int) (CQ, error)
	// AsyncEvent returns the next event of the device, or nil when wait has passed.
	AsyncEvent(ctx context.Context, wait time.Duration) (*AsyncEvent, error)
}

// PD is a protection domain.
type PD interface {
	// RegMR allocates memory and registers it. offset is where in a page it begins.
	RegMR(ctx context.Context, size, offset int, rights Access) (MR, error)
	NewMW(ctx context.Context) (MW, error) // type 2
	NewSRQ(ctx context.Context, depth int) (SRQ, error)
	NewQP(ctx context.Context, c QPConfig) (QP, error)
	NewAH(ctx context.Context, to netip.Addr) (AH, error)
	Destroy(ctx context.Context) error
}

// MR is a memory region with its memory. Offsets count from its first byte.
type MR interface {
	Addr() uint64
	Len() int
	LKey() uint32
	RKey() uint32
	// Fill and Check work on bytes [off, off+n) and bytes skip.. of the seed's pattern.
	Fill(ctx context.Context, off, n int, seed, skip uint64) error
	Check(ctx context.Context, off, n int, seed, skip uint64) (Mismatch, error)
	Peek(ctx context.Context, off, n int) ([]byte, error) // 64 KB at most
	Poke(ctx context.Context, off int, data []byte) error // 64 KB at most
	Destroy(ctx context.Context) error
}

// MW is a memory window of type 2. RKey is what it was allocated with; a bind request gives it
// the key that its key bits (the lowest 8) shall have next.
type MW interface {
	RKey() uint32
	Destroy(ctx context.Context) error
}

// CQ is a completion queue.
type CQ interface {
	// Poll waits until n completions are there or wait has passed, and returns those that came, n
	// at most.
	Poll(ctx context.Context, n int, wait time.Duration) ([]Completion, error)
	Destroy(ctx context.Context) error
}

// SRQ is a shared receive queue.
type SRQ interface {
	PostRecv(ctx context.Context, wrs ...RecvWR) error
	Arm(ctx context.Context, limit int) error // EventSRQLimit when fewer than limit are left
	Destroy(ctx context.Context) error
}

// QP is a queue pair.
type QP interface {
	QPN() uint32
	ToInit(ctx context.Context, a InitAttr) error
	ToRTR(ctx context.Context, a RTRAttr) error
	ToRTS(ctx context.Context, a RTSAttr) error
	To(ctx context.Context, s State) error // states that need no attributes
	State(ctx context.Context) (State, error)
	PostSend(ctx context.Context, wrs ...SendWR) error
	PostRecv(ctx context.Context, wrs ...RecvWR) error
	// Run sends messages like r.WR, a number of them at a time, and waits for their completions.
	Run(ctx context.Context, r Run) (RunResult, error)
	// RunRecv takes the messages of a Run of the peer into r.WR's SGE. r.Posted of the receives
	// have been posted before.
	RunRecv(ctx context.Context, r Run) (RunResult, error)
	Destroy(ctx context.Context) error
}

// AH is an address handle.
type AH interface {
	Destroy(ctx context.Context) error
}

// SGE is a piece of local memory.
type SGE struct {
	MR       MR
	Off, Len int
}

// SendWR is a work request for the send queue. Which fields count depends on Op.
type SendWR struct {
	ID         uint64
	Op         Op
	SGEs       []SGE
	Unsignaled bool
	Solicited  bool
	Fence      bool
	Inline     bool
	Imm        uint32 // SEND_IMM, WRITE_IMM; the number, not its bytes
	Inv        uint32 // rkey for SEND_INV, LOCAL_INV

	RemoteAddr uint64 // WRITE, READ, atomics
	RKey       uint32
	CompareAdd uint64 // CMP_SWAP: compare; FETCH_ADD: add
	Swap       uint64

	UD   *UDDest
	Bind *Bind
}

// UDDest is where a datagram goes.
type UDDest struct {
	AH   AH
	QPN  uint32
	QKey uint32
}

// Bind makes MW cover Len bytes of MR from Off on; it is then known to peers as RKey.
type Bind struct {
	MW       MW
	MR       MR
	Off, Len int
	Rights   Access
	RKey     uint32
}

// RecvWR is a work request for a receive queue.
type RecvWR struct {
	ID   uint64
	SGEs []SGE
}

// Completion is what a CQ yields. Fields from Op on hold for Success only.
type Completion struct {
	ID     uint64
	Status Status
	QPN    uint32

	Op    WCOp
	Len   int
	Imm   *uint32 // immediate data of SEND_IMM and WRITE_IMM
	Inv   *uint32 // rkey that SEND_INV invalidated
	GRH   bool    // UD: the first 40 bytes of the buffer are a network header
	SrcQP uint32  // UD
}

// Run is a number of equal messages. Message i uses the memory at slot i modulo Depth, slots
// being Stride bytes apart at both ends.
type Run struct {
	CQ           CQ
	WR           SendWR // with one SGE; ID and Unsignaled do not count
	Count, Depth int
	Stride       int
	Posted       int
	Wait         time.Duration // for all of them
}

// RunResult is how a Run went. Late says that Wait had passed before the end.
type RunResult struct {
	Done, Errors int
	FirstError   Status
	Late         bool
	Took         time.Duration
}

// QPConfig is what a queue pair is made with.
type QPConfig struct {
	Service        Service
	SendCQ, RecvCQ CQ
	SRQ            SRQ // nil: a receive queue of its own
	SendWR, RecvWR int
	SendSGE        int // default 1
	RecvSGE        int // default 1
	Inline         int // bytes
}

// InitAttr is for RESET to INIT.
type InitAttr struct {
	Rights Access // RC and UC
	QKey   uint32 // UD
}

// RTRAttr is for INIT to RTR. UD needs none of it.
type RTRAttr struct {
	Peer         netip.Addr
	DestQPN      uint32
	PSN          uint32 // of the first packet that comes
	PMTU         int    // 256 to 4096
	DestRdAtomic int    // RC: READs and atomics of the peer at a time
	MinRNRTimer  int    // RC: IBTA table 45
	Service      Service
}

// RTSAttr is for RTR to RTS.
type RTSAttr struct {
	Service  Service
	PSN      uint32 // of the first packet that goes
	Timeout  int    // RC: 4.096 µs × 2^Timeout; 0: none
	RetryCnt int    // RC
	RNRRetry int    // RC; 7: for ever
	RdAtomic int    // RC: own READs and atomics at a time
}

// AsyncEvent is an event of the device. QP and SRQ are those it concerns, as the side made them.
type AsyncEvent struct {
	Type int // as in enum ibv_event_type
	QP   QP
	SRQ  SRQ
}
