// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"net/netip"
	"sync/atomic"
	"unsafe"
)

// The structures of lib/abi.h and lib/policy.h, whose comments describe every
// field. Host byte order, times in nanoseconds.
type (
	DestKey        = SoftroceDestKey
	DestRegs       = SoftroceDestRegs
	PolicyRegs     = SoftrocePolicyRegs
	PolicyParams   = SoftrocePolicyParams
	PriorityParams = SoftrocePriorityParams
	PriorityState  = SoftrocePriorityState
	Config         = SoftroceSrConfig
	Event          = SoftroceSrEvent
	RxMeta         = SoftroceRxMeta
	Steer          = SoftroceSteer
	CmRequest      = SoftroceCmRequest
	CmId           = SoftroceCmId
	AgentSlot      = SoftroceAgentSlot
	EngineSlot     = SoftroceEngineSlot
	RateLimit      = SoftroceRateLimit
	ArrivalLimit   = SoftroceArrivalLimit
	ArrivalCount   = SoftroceArrivalCount
	LimitWords     = SoftroceLimitWords
	OwnWords       = SoftroceOwnWords
	OwnPair        = SoftroceOwnPair
	Objects        = SoftroceObjects
)

// Sizes and limits that are macros in lib/abi.h; abi_test.go compares them.
const (
	ABIVersion  = 5
	AgentSlots  = 128
	EngineSlots = 32
	engineSync  = 0x100
	MetaMagic   = 0x53524d31
	NoSample    = 1<<63 - 1 // a window without a sample
	callInvalid = 0xffffffff
)

// What a peer understands: DestRegs.Caps and the caps field of HELLO.
const (
	CapStamp  = uint16(SoftroceSrCapSR_CAP_STAMP)
	CapSACK   = uint16(SoftroceSrCapSR_CAP_SACK)
	CapCredit = uint16(SoftroceSrCapSR_CAP_CREDIT)
	CapOOO    = uint16(SoftroceSrCapSR_CAP_OOO)
	CapStatic = uint16(SoftroceSrCapSR_CAP_STATIC)
)

// Pacers, as Config.Pacer carries them.
const (
	PacerNone   = uint32(SoftroceSrPacerSR_PACER_NONE)
	PacerEDT    = uint32(SoftroceSrPacerSR_PACER_EDT)
	PacerHTB    = uint32(SoftroceSrPacerSR_PACER_HTB)
	PacerPolice = uint32(SoftroceSrPacerSR_PACER_POLICE)
)

// Event types.
const (
	EventNewDest    = uint32(SoftroceSrEventTypeSR_EVENT_NEW_DEST)
	EventPeerAware  = uint32(SoftroceSrEventTypeSR_EVENT_PEER_AWARE)
	EventHello      = uint32(SoftroceSrEventTypeSR_EVENT_HELLO)
	EventAckUnknown = uint32(SoftroceSrEventTypeSR_EVENT_ACK_UNKNOWN)
	EventActive     = uint32(SoftroceSrEventTypeSR_EVENT_ACTIVE)
	EventNewSource  = uint32(SoftroceSrEventTypeSR_EVENT_NEW_SOURCE)
	EventAsk        = uint32(SoftroceSrEventTypeSR_EVENT_ASK)
)

// Operations of the agent call program and the fields that an apply may name.
const (
	AgentCollect = uint32(SoftroceSrAgentOpSR_AGENT_COLLECT)
	AgentApply   = uint32(SoftroceSrAgentOpSR_AGENT_APPLY)
	AgentRead    = uint32(SoftroceSrAgentOpSR_AGENT_READ)

	SetPolicy   = uint32(SoftroceSrAgentSetSR_SET_POLICY)
	SetClass    = uint32(SoftroceSrAgentSetSR_SET_CLASS)
	SetNode     = uint32(SoftroceSrAgentSetSR_SET_NODE)
	SetCaps     = uint32(SoftroceSrAgentSetSR_SET_CAPS)
	ShiftNextTx = uint32(SoftroceSrAgentSetSR_SHIFT_NEXT_TX)
	KeepEchoes  = uint32(SoftroceSrAgentSetSR_KEEP_ECHOES)
)

// CEEchoed in EngineSlot.Flags: a stamp of the engine has echoed the CE marks of the peer's
// packets.
const CEEchoed = uint8(SoftroceSrEngineFlagSR_ENGINE_CE_ECHOED)

// AnswerDue in EngineSlot.Flags: feedback is due, since a sent packet is answered by an ACK or
// an echo.
const AnswerDue = uint8(SoftroceSrEngineFlagSR_ENGINE_DUE)

// EngineWaits in EngineSlot.Flags: data waits for the engine's pacer now.
const EngineWaits = uint8(SoftroceSrEngineFlagSR_ENGINE_WAITS)

// EngineCMAnswers in EngineSlot.Flags: only answers of the communication manager were sent, which make no
// new entry.
const EngineCMAnswers = uint8(SoftroceSrEngineFlagSR_ENGINE_CM_ANSWERS)

// EngineAsks in EngineSlot.Flags: the agent is to ask the peer whether it stamps.
const EngineAsks = uint8(SoftroceSrEngineFlagSR_ENGINE_ASK)

// Bits of EngineSlot.Found.
const (
	Found        = uint16(SoftroceSrEngineFoundSR_FOUND)
	FoundAnswers = uint16(SoftroceSrEngineFoundSR_FOUND_ANSWERS)
	FoundBare    = uint16(SoftroceSrEngineFoundSR_FOUND_BARE)
	FoundProven  = uint16(SoftroceSrEngineFoundSR_FOUND_PROVEN)
	FoundRoom    = uint16(SoftroceSrEngineFoundSR_FOUND_ROOM)
)

// Bits of Event.Proven of a HELLO.
const (
	HelloProven = uint32(SoftroceSrHelloProofSR_HELLO_PROVEN)
	HelloAsks   = uint32(SoftroceSrHelloProofSR_HELLO_ASKS)
)

// RoomNone in DestRegs.PeerRoom: the peer has answered that it stamps nothing.
const RoomNone = 1

// The engine's latest report in a window: DestRegs.WinEngine.
const (
	EngineSilent      = uint8(SoftroceSrEngineReportSR_ENGINE_SILENT)
	EngineFree        = uint8(SoftroceSrEngineReportSR_ENGINE_FREE)
	EnginePaceBlocked = uint8(SoftroceSrEngineReportSR_ENGINE_PACE_BLOCKED)
)

// KeyOf makes the table's key of an address. IPv4 becomes ::ffff:a.b.c.d; a zone
// is dropped.
func KeyOf(a netip.Addr) DestKey { return DestKey{Addr: a.As16()} }

// AddrOf is the inverse of KeyOf.
func AddrOf(k DestKey) netip.Addr { return netip.AddrFrom16(k.Addr).Unmap() }

// SlotsOf views the memory of the call buffer as its slots. mem must be the
// mapping of the whole map.
func SlotsOf(mem []byte) []AgentSlot {
	if len(mem) < AgentSlots*int(unsafe.Sizeof(AgentSlot{})) {
		panic("bpf: call buffer mapping is too short")
	}
	return unsafe.Slice((*AgentSlot)(unsafe.Pointer(unsafe.SliceData(mem))), AgentSlots)
}

// ConfigOf views the memory of the config map as its only element.
func ConfigOf(mem []byte) *Config {
	if len(mem) < int(unsafe.Sizeof(Config{})) {
		panic("bpf: config mapping is too short")
	}
	return (*Config)(unsafe.Pointer(unsafe.SliceData(mem)))
}

// LimitStateOf views the memory of the limit_state map as its only element.
func LimitStateOf(mem []byte) *LimitWords {
	if len(mem) < int(unsafe.Sizeof(LimitWords{})) {
		panic("bpf: limit_state mapping is too short")
	}
	return (*LimitWords)(unsafe.Pointer(unsafe.SliceData(mem)))
}

// OwnStateOf views the memory of the own_state map as its only element.
func OwnStateOf(mem []byte) *OwnWords {
	if len(mem) < int(unsafe.Sizeof(OwnWords{})) {
		panic("bpf: own_state mapping is too short")
	}
	return (*OwnWords)(unsafe.Pointer(unsafe.SliceData(mem)))
}

// WordOf views the memory of a map with one element of 32 bits.
func WordOf(mem []byte) *atomic.Uint32 {
	if len(mem) < 4 {
		panic("bpf: the mapping of a word is too short")
	}
	return (*atomic.Uint32)(unsafe.Pointer(unsafe.SliceData(mem)))
}

// bytes views the message with its first n slots as the data of a call.
func (m *engineMessage) bytes(n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(m)), unsafe.Offsetof(m.slots)+uintptr(n)*unsafe.Sizeof(m.slots[0]))
}

// Row is one destination and its registers.
type Row struct {
	Addr netip.Addr
	Regs DestRegs
}

// WordsOf views a structure as 64-bit words in the order of their addresses, as a card has
// them.
func WordsOf[T DestRegs | PolicyParams](x *T) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(x)), unsafe.Sizeof(*x)/8)
}

// EventOf reads one record of the events ring. It returns false if the record has another size
// than struct sr_event, of this version or without its last field, Own.
func EventOf(raw []byte) (Event, bool) {
	var e Event
	if len(raw) != int(unsafe.Sizeof(e)) && len(raw) != int(unsafe.Offsetof(e.Own)) {
		return Event{}, false
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&e)), unsafe.Sizeof(e)), raw)
	return e, true
}

// PolicyAs views the policy's registers as T, the same structure under the names
// of the package that computes with it. It panics if the sizes differ.
func PolicyAs[T any](r *PolicyRegs) *T {
	var t T
	if unsafe.Sizeof(t) != unsafe.Sizeof(*r) {
		panic("bpf: policy_regs and the policy's own registers differ in size")
	}
	return (*T)(unsafe.Pointer(r))
}

// ParamsAs views the policy's parameters as T; ParamsFrom is its inverse.
func ParamsAs[T any](p *PolicyParams) *T {
	var t T
	if unsafe.Sizeof(t) != unsafe.Sizeof(*p) {
		panic("bpf: policy_params and the policy's own parameters differ in size")
	}
	return (*T)(unsafe.Pointer(p))
}

// ParamsFrom views T as the policy's parameters in the config map.
func ParamsFrom[T any](t *T) *PolicyParams {
	if unsafe.Sizeof(*t) != unsafe.Sizeof(PolicyParams{}) {
		panic("bpf: policy_params and the policy's own parameters differ in size")
	}
	return (*PolicyParams)(unsafe.Pointer(t))
}

// PriorityAs views the parameters and the state of the priority policy as P and S, the
// same structures under the names of the package that computes with them.
func PriorityAs[P, S any](c *Config) (*P, *S) {
	var p P
	var s S
	if unsafe.Sizeof(p) != unsafe.Sizeof(c.Priority) || unsafe.Sizeof(s) != unsafe.Sizeof(c.PriorityNow) {
		panic("bpf: struct priority_params or priority_state and the policy's own differ in size")
	}
	return (*P)(unsafe.Pointer(&c.Priority)), (*S)(unsafe.Pointer(&c.PriorityNow))
}

// StateAs views the state of a priority policy as T; StateFrom is its inverse.
func StateAs[T any](s *PriorityState) *T {
	var t T
	if unsafe.Sizeof(t) != unsafe.Sizeof(*s) {
		panic("bpf: struct priority_state and the policy's own differ in size")
	}
	return (*T)(unsafe.Pointer(s))
}

// StateFrom views T as the state of a priority policy.
func StateFrom[T any](s *T) *PriorityState {
	if unsafe.Sizeof(*s) != unsafe.Sizeof(PriorityState{}) {
		panic("bpf: struct priority_state and the policy's own differ in size")
	}
	return (*PriorityState)(unsafe.Pointer(s))
}

// CmRest is CmRequest.Sidr of an entry whose Peer is an address of this host: all messages of the
// communication manager to it that nothing else matches are the engine's.
const CmRest = 2
