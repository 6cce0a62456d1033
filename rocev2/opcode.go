// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"math/bits"
	"strconv"
)

// Opcode is byte 0 of the BTH: service in bits 7:5, operation in bits 4:0.
type Opcode uint8

// Opcodes of RC (IBTA 9.2).
const (
	RCSendFirst          Opcode = 0x00
	RCSendMiddle         Opcode = 0x01
	RCSendLast           Opcode = 0x02
	RCSendLastImm        Opcode = 0x03
	RCSendOnly           Opcode = 0x04
	RCSendOnlyImm        Opcode = 0x05
	RCWriteFirst         Opcode = 0x06
	RCWriteMiddle        Opcode = 0x07
	RCWriteLast          Opcode = 0x08
	RCWriteLastImm       Opcode = 0x09
	RCWriteOnly          Opcode = 0x0A
	RCWriteOnlyImm       Opcode = 0x0B
	RCReadRequest        Opcode = 0x0C
	RCReadResponseFirst  Opcode = 0x0D
	RCReadResponseMiddle Opcode = 0x0E
	RCReadResponseLast   Opcode = 0x0F
	RCReadResponseOnly   Opcode = 0x10
	RCAck                Opcode = 0x11
	RCAtomicAck          Opcode = 0x12
	RCCompareSwap        Opcode = 0x13
	RCFetchAdd           Opcode = 0x14
	RCSendLastInv        Opcode = 0x16
	RCSendOnlyInv        Opcode = 0x17
	RCFlush              Opcode = 0x1C
	RCAtomicWrite        Opcode = 0x1D
)

// Opcodes of UC, UD and the congestion notification packet (annex A17).
const (
	UCSendFirst    Opcode = 0x20
	UCSendMiddle   Opcode = 0x21
	UCSendLast     Opcode = 0x22
	UCSendLastImm  Opcode = 0x23
	UCSendOnly     Opcode = 0x24
	UCSendOnlyImm  Opcode = 0x25
	UCWriteFirst   Opcode = 0x26
	UCWriteMiddle  Opcode = 0x27
	UCWriteLast    Opcode = 0x28
	UCWriteLastImm Opcode = 0x29
	UCWriteOnly    Opcode = 0x2A
	UCWriteOnlyImm Opcode = 0x2B

	UDSendOnly    Opcode = 0x64
	UDSendOnlyImm Opcode = 0x65

	CNP Opcode = 0x81
)

// Our control opcodes, in the manufacturer range. HELLO, ECHO, RATE_LIMIT and the credit packets
// go to ControlQPN, the others to a queue pair. Those of out-of-order mode (S3) have an
// O in front.
const (
	OpHello        Opcode = 0xC0
	OpHelloAck     Opcode = 0xC1
	OpCreditGrant  Opcode = 0xC2
	OpCreditReturn Opcode = 0xC3
	OpSACK         Opcode = 0xC4
	OpRateLimit    Opcode = 0xC5
	OpEcho         Opcode = 0xC6
	OpOWrite       Opcode = 0xC8
	OpOReadReq     Opcode = 0xC9
	OpOReadResp    Opcode = 0xCA
	OpOAck         Opcode = 0xCC
	OpONotify      Opcode = 0xCD
	OpONotifyAck   Opcode = 0xCE
	OpONak         Opcode = 0xCF
)

// Class is the transport service of an opcode.
type Class uint8

// The classes. An opcode outside the table has ClassUnknown.
const (
	ClassUnknown Class = iota
	ClassRC
	ClassUC
	ClassUD
	ClassCNP
	ClassControl
)

// Position is a packet's place in its message.
type Position uint8

// The positions. PosNone is for packets that are not part of a message: ACKs,
// CNPs, control.
const (
	PosNone Position = iota
	PosFirst
	PosMiddle
	PosLast
	PosOnly
)

// Ext is a set of extended headers. They follow the BTH in the order of the bits.
type Ext uint32

// The extended headers, in wire order.
const (
	ExtFETH Ext = 1 << iota
	ExtDETH
	ExtRETH
	ExtAtomicETH
	ExtAETH
	ExtAtomicAckETH
	ExtImmDt
	ExtIETH
	ExtSACK
	ExtHello
	ExtGrant
	ExtReturn
	ExtEcho
	ExtRateLimit
	ExtOETH
	ExtOACK
	ExtONotify
	ExtONotifyAck
	ExtONak
)

var extLen = [...]uint8{
	FETHLen, DETHLen, RETHLen, AtomicETHLen, AETHLen, AtomicAckETHLen, ImmDtLen, IETHLen, SACKLen, HelloLen,
	CreditLen, CreditLen, EchoLen, RateLimitLen, OETHLen, OACKLen, ONotifyLen, ONotifyAckLen, ONakLen,
}

// Operation is what a packet does, whatever its position in the message.
type Operation uint8

// The operations.
const (
	OperationNone Operation = iota
	OperationSend
	OperationWrite
	OperationRead
	OperationReadResponse
	OperationAck
	OperationAtomic
	OperationAtomicAck
	OperationFlush
	OperationAtomicWrite
	OperationCNP
	OperationControl
)

// OpcodeInfo is one line of the opcode table.
type OpcodeInfo struct {
	Name      string
	Class     Class
	Operation Operation
	Position  Position
	Ext       Ext
	ExtLen    uint8 // bytes of all extended headers
	Payload   bool  // packets of this opcode may carry payload
	Request   bool  // RC: consumes PSNs of the requester and is answered

	extOff [len(extLen)]uint8 // offsets from the end of the BTH
}

// CNPBodyLen is the number of reserved zero bytes behind the BTH of a CNP.
const CNPBodyLen = 16

var opcodeTable = buildOpcodeTable()

func buildOpcodeTable() (t [256]OpcodeInfo) {
	set := func(op Opcode, name string, class Class, oper Operation, pos Position, ext Ext, payload, request bool) {
		line := OpcodeInfo{
			Name: name, Class: class, Operation: oper, Position: pos,
			Ext: ext, Payload: payload, Request: request,
		}
		for i, l := range extLen {
			if ext&(1<<i) != 0 {
				line.extOff[i] = line.ExtLen
				line.ExtLen += l
			}
		}
		t[op] = line
	}
	for _, s := range []struct {
		base  Opcode
		name  string
		class Class
	}{{0x00, "RC_", ClassRC}, {0x20, "UC_", ClassUC}} {
		rc := s.class == ClassRC
		msg := func(op Opcode, name string, oper Operation, pos Position, ext Ext) {
			set(s.base|op, s.name+name, s.class, oper, pos, ext, true, rc)
		}
		msg(RCSendFirst, "SEND_FIRST", OperationSend, PosFirst, 0)
		msg(RCSendMiddle, "SEND_MIDDLE", OperationSend, PosMiddle, 0)
		msg(RCSendLast, "SEND_LAST", OperationSend, PosLast, 0)
		msg(RCSendLastImm, "SEND_LAST_IMM", OperationSend, PosLast, ExtImmDt)
		msg(RCSendOnly, "SEND_ONLY", OperationSend, PosOnly, 0)
		msg(RCSendOnlyImm, "SEND_ONLY_IMM", OperationSend, PosOnly, ExtImmDt)
		msg(RCWriteFirst, "WRITE_FIRST", OperationWrite, PosFirst, ExtRETH)
		msg(RCWriteMiddle, "WRITE_MIDDLE", OperationWrite, PosMiddle, 0)
		msg(RCWriteLast, "WRITE_LAST", OperationWrite, PosLast, 0)
		msg(RCWriteLastImm, "WRITE_LAST_IMM", OperationWrite, PosLast, ExtImmDt)
		msg(RCWriteOnly, "WRITE_ONLY", OperationWrite, PosOnly, ExtRETH)
		msg(RCWriteOnlyImm, "WRITE_ONLY_IMM", OperationWrite, PosOnly, ExtRETH|ExtImmDt)
	}
	rc := func(op Opcode, name string, oper Operation, pos Position, ext Ext, payload, request bool) {
		set(op, "RC_"+name, ClassRC, oper, pos, ext, payload, request)
	}
	rc(RCReadRequest, "READ_REQUEST", OperationRead, PosOnly, ExtRETH, false, true)
	rc(RCReadResponseFirst, "READ_RESPONSE_FIRST", OperationReadResponse, PosFirst, ExtAETH, true, false)
	rc(RCReadResponseMiddle, "READ_RESPONSE_MIDDLE", OperationReadResponse, PosMiddle, 0, true, false)
	rc(RCReadResponseLast, "READ_RESPONSE_LAST", OperationReadResponse, PosLast, ExtAETH, true, false)
	rc(RCReadResponseOnly, "READ_RESPONSE_ONLY", OperationReadResponse, PosOnly, ExtAETH, true, false)
	rc(RCAck, "ACK", OperationAck, PosNone, ExtAETH, false, false)
	rc(RCAtomicAck, "ATOMIC_ACK", OperationAtomicAck, PosNone, ExtAETH|ExtAtomicAckETH, false, false)
	rc(RCCompareSwap, "COMPARE_SWAP", OperationAtomic, PosOnly, ExtAtomicETH, false, true)
	rc(RCFetchAdd, "FETCH_ADD", OperationAtomic, PosOnly, ExtAtomicETH, false, true)
	rc(RCSendLastInv, "SEND_LAST_INV", OperationSend, PosLast, ExtIETH, true, true)
	rc(RCSendOnlyInv, "SEND_ONLY_INV", OperationSend, PosOnly, ExtIETH, true, true)
	rc(RCFlush, "FLUSH", OperationFlush, PosOnly, ExtFETH|ExtRETH, false, true)
	rc(RCAtomicWrite, "ATOMIC_WRITE", OperationAtomicWrite, PosOnly, ExtRETH, true, true)

	set(UDSendOnly, "UD_SEND_ONLY", ClassUD, OperationSend, PosOnly, ExtDETH, true, false)
	set(UDSendOnlyImm, "UD_SEND_ONLY_IMM", ClassUD, OperationSend, PosOnly, ExtDETH|ExtImmDt, true, false)
	set(CNP, "CNP", ClassCNP, OperationCNP, PosNone, 0, true, false)

	control := func(op Opcode, name string, ext Ext, payload bool) {
		set(op, name, ClassControl, OperationControl, PosNone, ext, payload, false)
	}
	control(OpHello, "HELLO", ExtHello, false)
	control(OpHelloAck, "HELLO_ACK", ExtHello, false)
	control(OpCreditGrant, "CREDIT_GRANT", ExtGrant, false)
	control(OpCreditReturn, "CREDIT_RETURN", ExtReturn, false)
	control(OpSACK, "SACK", ExtAETH|ExtSACK, false)
	control(OpRateLimit, "RATE_LIMIT", ExtRateLimit, false)
	control(OpEcho, "ECHO", ExtEcho, false)
	control(OpOWrite, "OWRITE", ExtOETH, true)
	control(OpOReadReq, "OREAD_REQ", ExtOETH, false)
	control(OpOReadResp, "OREAD_RESP", ExtOETH, true)
	control(OpOAck, "OACK", ExtOACK, false)
	control(OpONotify, "ONOTIFY", ExtONotify, false)
	control(OpONotifyAck, "ONOTIFY_ACK", ExtONotifyAck, false)
	control(OpONak, "ONAK", ExtONak, false)
	return t
}

// Info returns the table's line; Name is empty and Class is ClassUnknown for an
// opcode that is not in it.
func (op Opcode) Info() *OpcodeInfo { return &opcodeTable[op] }

// view cuts one extended header out of what follows the BTH, or returns nil if the
// opcode has none such. body must hold all extended headers.
func (i *OpcodeInfo) view(e Ext, body []byte) []byte {
	if i.Ext&e == 0 {
		return nil
	}
	n := bits.TrailingZeros32(uint32(e))
	off := i.extOff[n]
	end := off + extLen[n]
	return body[off:end:end]
}

// Known reports whether the opcode is in the table.
func (op Opcode) Known() bool { return opcodeTable[op].Class != ClassUnknown }

// Class returns the transport service.
func (op Opcode) Class() Class { return opcodeTable[op].Class }

// Ext returns the extended headers that follow the BTH.
func (op Opcode) Ext() Ext { return opcodeTable[op].Ext }

// String is the name, or "OPCODE_0x15" for an unknown one.
func (op Opcode) String() string {
	if n := opcodeTable[op].Name; n != "" {
		return n
	}
	return "OPCODE_0x" + strconv.FormatUint(uint64(op)|0x100, 16)[1:]
}

var classNames = [...]string{"unknown", "RC", "UC", "UD", "CNP", "control"}

// String is the name of the class.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return classNames[0]
}
