// SPDX-License-Identifier: Apache-2.0

// Package layers teaches gopacket RoCEv2. Internal to this project. Importing it registers UDP port
// 4791, so that gopacket.NewPacket decodes captures down to the extended headers, the ICRC verdict
// and the stamp option:
//
//	Ethernet | IPv4 | UDP | BTH | RETH | Payload | ICRC | Stamp
//
// Every field of a layer is a copy, so layers stay valid with gopacket.NoCopy. For
// the data path use package rocev2 itself; this one allocates.
package layers

import (
	"github.com/google/gopacket"
	gplayers "github.com/google/gopacket/layers"

	"github.com/softroce/softroce-xdp/rocev2"
)

// The layer types. gopacket leaves the numbers from 2000 on to its users.
var (
	LayerTypeBTH          = register(0, "BTH", decodeBTH)
	LayerTypeFETH         = register(1, "FETH", nil)
	LayerTypeDETH         = register(2, "DETH", nil)
	LayerTypeRETH         = register(3, "RETH", nil)
	LayerTypeAtomicETH    = register(4, "AtomicETH", nil)
	LayerTypeAETH         = register(5, "AETH", nil)
	LayerTypeAtomicAckETH = register(6, "AtomicAckETH", nil)
	LayerTypeImmDt        = register(7, "ImmDt", nil)
	LayerTypeIETH         = register(8, "IETH", nil)
	LayerTypeSACK         = register(9, "SACK", nil)
	LayerTypeHello        = register(10, "Hello", nil)
	LayerTypeICRC         = register(11, "ICRC", nil)
	LayerTypeStamp        = register(12, "Stamp", nil)
	LayerTypeSurplus      = register(13, "Surplus", nil)
	LayerTypeCreditGrant  = register(14, "CreditGrant", nil)
	LayerTypeCreditReturn = register(15, "CreditReturn", nil)
	LayerTypeOETH         = register(16, "OETH", nil)
	LayerTypeOACK         = register(17, "OACK", nil)
	LayerTypeONotify      = register(18, "ONotify", nil)
	LayerTypeONotifyAck   = register(19, "ONotifyAck", nil)
	LayerTypeONak         = register(20, "ONak", nil)
	LayerTypeRateLimit    = register(21, "RateLimit", nil)
)

const firstLayerType = 4791

// register takes decode nil for the layers that only ever follow a BTH and are
// added by its decoder.
func register(n int, name string, decode gopacket.DecodeFunc) gopacket.LayerType {
	meta := gopacket.LayerTypeMetadata{Name: name, Decoder: gopacket.DecodePayload}
	if decode != nil {
		meta.Decoder = decode
	}
	return gopacket.RegisterLayerType(firstLayerType+n, meta)
}

func init() {
	gplayers.RegisterUDPPortLayerType(rocev2.UDPPort, LayerTypeBTH)
}

// BTH is the base transport header.
type BTH struct {
	gplayers.BaseLayer
	Opcode            rocev2.Opcode
	Solicited, MigReq bool
	PadCount, Version uint8
	PKey              uint16
	FECN, BECN        bool
	DestQP            uint32
	AckReq            bool
	PSN               rocev2.PSN
}

// FETH is the flush header.
type FETH struct {
	gplayers.BaseLayer
	Placement, Selectivity uint8
}

// DETH is the datagram header of UD.
type DETH struct {
	gplayers.BaseLayer
	QKey, SrcQP uint32
}

// RETH is the RDMA header.
type RETH struct {
	gplayers.BaseLayer
	VA           uint64
	RKey, DMALen uint32
}

// AtomicETH is the atomic header.
type AtomicETH struct {
	gplayers.BaseLayer
	VA                 uint64
	RKey               uint32
	SwapOrAdd, Compare uint64
}

// AETH is the acknowledge header.
type AETH struct {
	gplayers.BaseLayer
	Syndrome rocev2.Syndrome
	MSN      uint32
}

// AtomicAckETH is the atomic acknowledge header.
type AtomicAckETH struct {
	gplayers.BaseLayer
	Original uint64
}

// ImmDt is the immediate data.
type ImmDt struct {
	gplayers.BaseLayer
	Value uint32
}

// IETH is the invalidate header.
type IETH struct {
	gplayers.BaseLayer
	RKey uint32
}

// SACK is the bitmap of our SACK packet.
type SACK struct {
	gplayers.BaseLayer
	Hi, Lo uint64
}

// Hello is the body of HELLO and HELLO_ACK. Err is why it could not be read.
type Hello struct {
	gplayers.BaseLayer
	rocev2.Hello
	Err error
}

// CreditGrant is the body of CREDIT_GRANT.
type CreditGrant struct {
	gplayers.BaseLayer
	rocev2.CreditFields
	Version uint16
	LifeNs  uint64
}

// CreditReturn is the body of CREDIT_RETURN.
type CreditReturn struct {
	gplayers.BaseLayer
	rocev2.CreditFields
	Version    uint16
	Sent, Void uint32
}

// RateLimit is the body of RATE_LIMIT.
type RateLimit struct {
	gplayers.BaseLayer
	rocev2.RateLimitFields
	Version uint16
}

// OETH is the header of OWRITE, OREAD_REQ and OREAD_RESP.
type OETH struct {
	gplayers.BaseLayer
	rocev2.OETHFields
	Version uint8
}

// OACK is the body of OACK.
type OACK struct {
	gplayers.BaseLayer
	rocev2.OACKFields
}

// ONotify is the body of ONOTIFY.
type ONotify struct {
	gplayers.BaseLayer
	rocev2.ONotifyFields
}

// ONotifyAck is the body of ONOTIFY_ACK.
type ONotifyAck struct {
	gplayers.BaseLayer
	rocev2.ONotifyAckFields
}

// ONak is the body of ONAK.
type ONak struct {
	gplayers.BaseLayer
	rocev2.ONakFields
}

// ICRC is the invariant CRC with its verdict: Err is nil if it is right,
// rocev2.ErrICRC if it is wrong, and another error if it could not be checked, for
// instance because the IP header is not part of the packet.
type ICRC struct {
	gplayers.BaseLayer
	Value uint32
	Err   error
}

// Stamp is the stamp option.
type Stamp struct {
	gplayers.BaseLayer
	rocev2.Stamp
}

// Surplus is a surplus area that holds no stamp that counts; Err says why.
type Surplus struct {
	gplayers.BaseLayer
	Err error
}

// LayerType implements gopacket.Layer.
func (*BTH) LayerType() gopacket.LayerType { return LayerTypeBTH }

// LayerType implements gopacket.Layer.
func (*FETH) LayerType() gopacket.LayerType { return LayerTypeFETH }

// LayerType implements gopacket.Layer.
func (*DETH) LayerType() gopacket.LayerType { return LayerTypeDETH }

// LayerType implements gopacket.Layer.
func (*RETH) LayerType() gopacket.LayerType { return LayerTypeRETH }

// LayerType implements gopacket.Layer.
func (*AtomicETH) LayerType() gopacket.LayerType { return LayerTypeAtomicETH }

// LayerType implements gopacket.Layer.
func (*AETH) LayerType() gopacket.LayerType { return LayerTypeAETH }

// LayerType implements gopacket.Layer.
func (*AtomicAckETH) LayerType() gopacket.LayerType { return LayerTypeAtomicAckETH }

// LayerType implements gopacket.Layer.
func (*ImmDt) LayerType() gopacket.LayerType { return LayerTypeImmDt }

// LayerType implements gopacket.Layer.
func (*IETH) LayerType() gopacket.LayerType { return LayerTypeIETH }

// LayerType implements gopacket.Layer.
func (*SACK) LayerType() gopacket.LayerType { return LayerTypeSACK }

// LayerType implements gopacket.Layer.
func (*Hello) LayerType() gopacket.LayerType { return LayerTypeHello }

// LayerType implements gopacket.Layer.
func (*CreditGrant) LayerType() gopacket.LayerType { return LayerTypeCreditGrant }

// LayerType implements gopacket.Layer.
func (*CreditReturn) LayerType() gopacket.LayerType { return LayerTypeCreditReturn }

// LayerType implements gopacket.Layer.
func (*RateLimit) LayerType() gopacket.LayerType { return LayerTypeRateLimit }

// LayerType implements gopacket.Layer.
func (*OETH) LayerType() gopacket.LayerType { return LayerTypeOETH }

// LayerType implements gopacket.Layer.
func (*OACK) LayerType() gopacket.LayerType { return LayerTypeOACK }

// LayerType implements gopacket.Layer.
func (*ONotify) LayerType() gopacket.LayerType { return LayerTypeONotify }

// LayerType implements gopacket.Layer.
func (*ONotifyAck) LayerType() gopacket.LayerType { return LayerTypeONotifyAck }

// LayerType implements gopacket.Layer.
func (*ONak) LayerType() gopacket.LayerType { return LayerTypeONak }

// LayerType implements gopacket.Layer.
func (*ICRC) LayerType() gopacket.LayerType { return LayerTypeICRC }

// LayerType implements gopacket.Layer.
func (*Stamp) LayerType() gopacket.LayerType { return LayerTypeStamp }

// LayerType implements gopacket.Layer.
func (*Surplus) LayerType() gopacket.LayerType { return LayerTypeSurplus }
