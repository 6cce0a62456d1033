// SPDX-License-Identifier: Apache-2.0

package proto

// Version is the version of the protocol. Server and client must have the same. It is raised when a message changes that
// clients of the version before exchange.
const Version = 2

// Magic begins a Hello.
const Magic = 0x49445253 // "SRDI"

// MaxMessage is the length of the longest message in bytes.
const MaxMessage = 4096

// MaxObjects is how many objects a process may have, of those that have no limit too.
const MaxObjects = 1 << 16

// MaxText is the length of the longest text of an error in bytes.
const MaxText = 1024

// Type is the type of a message.
type Type uint16

// Reply is the bit of a Type that marks replies.
const Reply Type = 0x8000

// The requests of a client, and behind them the messages of the server that reply to none.
const (
	THello Type = iota + 1
	TPort
	TAllocPD
	TFreePD
	TAddArena
	TDropArena
	TRegArena
	TPassMemory
	TRegMemory
	TDeregMR
	TAllocMW
	TQueryMW
	TFreeMW
	TCreateCQ
	TDestroyCQ
	TCreateSRQ
	TSetSRQLimit
	TDestroySRQ
	TCreateAH
	TDestroyAH
	TCreateQP
	TModifyQP
	TQueryQP
	TDestroyQP

	// TStatus may be the first message, instead of a hello, and the only one then.
	TStatus

	// TCounters requests the counters of the process.
	TCounters

	// TDistributionStats requests the counters of a distribution region.
	TDistributionStats

	// TEncryptQP gives a queue pair its keys.
	TEncryptQP

	TQuerySRQ
	TResizeCQ

	// TEvent is an asynchronous event, a message of the server.
	TEvent Type = 0x100

	// TCM is the first of the calls and events of the communication manager (cm.go).
	TCM Type = 0x200
)

// Header begins every message.
type Header struct {
	Type   Type
	Status Status // status of a reply
	Seq    uint32 // number of a request, chosen by the client; a reply has the same; 0 for events
}

// HeaderBytes is the length of a Header.
const HeaderBytes = 8

// Hello is the first message of a client.
type Hello struct{ Magic, Version uint32 }

// HelloReply has the limits of the device. Descriptors: the status page, which can be mapped for reading
// only (package ring); the doorbell; an eventfd that the client signals when the server sleeps; a
// socket from which the client reads a byte when a completion queue was signalled.
//
// QPs to AHs are how many objects the process may have, and RegionBytes is how many bytes in all regions.
type HelloReply struct {
	Version                             uint32
	CQ, WR, SGE, MaxInline, MaxRdAtomic uint32
	QPs, CQs, SRQs, MRs, MWs, AHs       uint32
	RegionBytes                         uint64
}

// HelloFDs is the number of descriptors of a HelloReply.
const HelloFDs = 4

// Handle names an object of a client.
type Handle struct{ Handle uint32 }

// MaxGIDs is the largest number of GIDs that a PortReply has.
const MaxGIDs = 128

// Addr is an IP address as 16 bytes in network byte order; IPv4 is ::ffff:a.b.c.d. All zeros: none.
type Addr [16]byte

// PortReply is the state of the port: verbs.Port. Mbps is the rate of the link in Mbit/s, 0 if it is not known. The
// GID table has Count entries; one of zeros is a free index.
type PortReply struct {
	Active, MTU, Count, Mbps uint32
	MAC                      [6]uint8
	_                        [2]uint8
	GIDs                     [MaxGIDs]Addr
}

// AddArena has the server map a memfd, sealed in its size, as memory for regions.
// Descriptor: the memfd.
type AddArena struct{ Bytes uint64 }

// MaxDestinations is the largest number of destinations of a Group.
const MaxDestinations = 4

// Group is mr.Group. With Count 0 the region has none, and forwards nothing.
type Group struct {
	Count, _ uint32
	To       [MaxDestinations]Destination
}

// Destination is mr.Destination.
type Destination struct {
	QPN, RKey uint32
	VA        uint64
}

// RegArena registers a part of an arena. VA is the address by which the client and its peers name
// the first byte.
type RegArena struct {
	PD, Arena          uint32
	Offset, Length, VA uint64
	Access, _          uint32
	Group              Group
}

// RegMemory registers memory of the client at an address (package mr/clientmem). The client has sent a
// TPassMemory before, with the descriptors of its /proc/self/mem, maps and pagemap. VA is the address by which the client
// and its peers name the first byte.
type RegMemory struct {
	PD, Access       uint32
	Addr, Length, VA uint64
	Group            Group
}

// RegReply has the keys of a region.
type RegReply struct{ Handle, LKey, RKey, _ uint32 }

// AllocMWReply has the present key of a window; so has the reply to TQueryMW.
type AllocMWReply struct{ Handle, RKey uint32 }

// CreateCQ makes a completion queue.
type CreateCQ struct{ Depth uint32 }

// Shape is ring.Shape.
type Shape struct{ Entries, EntryBytes uint32 }

// CreateCQReply has the ring of a completion queue. Descriptor: the file that has it, from byte Offset on. Many
// rings of a process may be in one file. Offset is a multiple of the size of a page.
type CreateCQReply struct {
	Handle, Offset uint32
	Ring           Shape
}

// CreateSRQ makes a shared receive queue.
type CreateSRQ struct{ PD, Depth, SGE uint32 }

// CreateSRQReply has its ring, and the number by which the doorbell names it. Descriptor and Offset: see
// CreateCQReply.
type CreateSRQReply struct {
	Handle, Queue uint32
	Ring          Shape
	Offset, _     uint32
}

// ResizeCQ gives a completion queue a ring for up to Depth completions. The reply is a CreateCQReply with the same
// handle. The server moves the completions that were not read to the new ring, from entry 0 on, with the words at ArmedAt and
// StateAt. The client neither reads the old ring nor writes to it after the request, unless the reply is an error.
type ResizeCQ struct{ Handle, Depth uint32 }

// SRQLimit sets the limit of a shared receive queue, and is the reply to TQuerySRQ. The limit is 0 when it was reached.
type SRQLimit struct {
	Handle uint32
	Limit  int32
}

// AddressVector is verbs.AddressVector.
type AddressVector struct {
	Dst, Src Addr
	TClass   uint8
	HopLimit uint8
	_        [6]byte
}

// CreateAH makes an address handle.
type CreateAH struct {
	PD, _ uint32
	AV    AddressVector
}

// CreateAHReply has the longest datagram that the path carries at present, in bytes.
type CreateAHReply struct{ Handle, PMTU uint32 }

// CreateQP makes a queue pair. Queues are named by their handles; SRQ may be 0.
type CreateQP struct {
	PD, SendCQ, RecvCQ, SRQ                                uint32
	MaxSend, MaxRecv, MaxSendSGE, MaxRecvSGE, MaxInline, _ uint32
	Type, SignalAll, OutOfOrder, _                         uint8
	Payload, _                                             uint16
}

// CreateQPReply has the number of the queue pair, the numbers by which the doorbell names its queues,
// and its rings, with the receive queue behind the send queue. Descriptor and Offset: see CreateCQReply.
type CreateQPReply struct {
	Handle, QPN          uint32
	SendQueue, RecvQueue uint32
	Send, Recv           Shape
	Offset, _            uint32
}

// Attr is verbs.Attr.
type Attr struct {
	State, PMTU, Access, MaxRdAtomic                          uint8
	MaxDestRdAtomic, MinRNRTimer, Timeout, RetryCnt, RNRRetry uint8
	Selective                                                 uint8
	PKey                                                      uint16
	DestQPN, QKey, SQPSN, RQPSN, Draining                     uint32
	AV                                                        AddressVector
}

// ModifyQP sets the attributes that Mask names.
type ModifyQP struct {
	Handle, Mask uint32
	Attr         Attr
}

// EncryptQP gives a queue pair the keys of a handshake: seal.Keys and seal.Limits. The server does not
// take MaxBlocks below MinBlocks, because each new key costs it some time; 0 is the default of package seal.
type EncryptQP struct {
	Handle        uint32
	Suite         uint8
	_             [3]byte
	Send, Receive [32]byte
	MaxBlocks     uint64
	Overlap       int64 // ns
}

// MinBlocks is the lowest MaxBlocks of an EncryptQP: a new key for each 64 KB.
const MinBlocks = 4096

// StatusRequest requests what processes use, from the process with index First on. Only root and the user of
// the server get an answer.
type StatusRequest struct{ First uint32 }

// StatusPart is how many processes a StatusReply has.
const StatusPart = 31

// StatusReply has Count processes of all Total.
type StatusReply struct {
	Total, Count uint32
	Processes    [StatusPart]ProcessStatus
}

// ProcessStatus is what a process uses.
type ProcessStatus struct {
	PID, UID                                      uint32
	QPs, CQs, CQEntries, SRQs, WRs, MRs, MWs, AHs uint64
	Bytes, Arenas, Connections, Listeners         uint64
	Mappings, Descriptors                         uint64
	CallsDelayed                                  uint64 // ms that calls have waited for the rate of control messages
}

// CountersRequest requests the counters from the one with index First on. As the first message, instead of
// a hello, it requests those of the whole device, and it takes CAP_NET_ADMIN or the user of the server.
type CountersRequest struct{ First uint32 }

// CountersPart is how many counters a CountersReply has.
const CountersPart = 31

// CountersReply has Count counters of all Total.
type CountersReply struct {
	Total, Count uint32
	Counters     [CountersPart]Counter
}

// Counter is verbs.Counter. Name and Text end with a byte of zero, or fill their room.
type Counter struct {
	Value uint64
	Name  [32]byte
	Text  [88]byte
}

// DistributionStats is mr.DistributionStats.
type DistributionStats struct {
	Arrived, Refused, Reports, ReportsLost uint64
	Delivered, Failed                      [MaxDestinations]uint64
}

// Event is verbs.Event. Object is the handle of a queue pair, a shared receive queue or a completion
// queue, by the type of the event. The text of Err follows the structure.
type Event struct {
	Type, Object uint32
	Addr         Addr
}

// Bodies returns the structures of the request and of the reply of a type, nil for an empty body.
// It returns false if no request has the type.
func Bodies(t Type) (request, reply any, ok bool) {
	switch t {
	case THello:
		return new(Hello), new(HelloReply), true
	case TPort:
		return nil, new(PortReply), true
	case TAllocPD:
		return nil, new(Handle), true
	case TFreePD, TDropArena, TDeregMR, TFreeMW, TDestroyCQ, TDestroySRQ, TDestroyAH, TDestroyQP:
		return new(Handle), nil, true
	case TAddArena:
		return new(AddArena), new(Handle), true
	case TRegArena:
		return new(RegArena), new(RegReply), true
	case TPassMemory:
		return nil, nil, true
	case TRegMemory:
		return new(RegMemory), new(RegReply), true
	case TAllocMW, TQueryMW:
		return new(Handle), new(AllocMWReply), true
	case TCreateCQ:
		return new(CreateCQ), new(CreateCQReply), true
	case TResizeCQ:
		return new(ResizeCQ), new(CreateCQReply), true
	case TCreateSRQ:
		return new(CreateSRQ), new(CreateSRQReply), true
	case TQuerySRQ:
		return new(Handle), new(SRQLimit), true
	case TSetSRQLimit:
		return new(SRQLimit), nil, true
	case TCreateAH:
		return new(CreateAH), new(CreateAHReply), true
	case TCreateQP:
		return new(CreateQP), new(CreateQPReply), true
	case TModifyQP:
		return new(ModifyQP), nil, true
	case TQueryQP:
		return new(Handle), new(Attr), true
	case TEncryptQP:
		return new(EncryptQP), nil, true
	case TCounters:
		return new(CountersRequest), new(CountersReply), true
	case TDistributionStats:
		return new(Handle), new(DistributionStats), true
	case TStatus:
		return new(StatusRequest), new(StatusReply), true
	}
	return cmBodies(t)
}
