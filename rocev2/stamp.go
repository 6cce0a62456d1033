// SPDX-License-Identifier: Apache-2.0

package rocev2

import "encoding/binary"

// The stamp option travels in the surplus area of RFC 9868, between the end of
// the UDP datagram and the end of the IP datagram. It is the only option there and
// fills the area exactly:
//
//	 0 OCS(16)  2 Kind=127 EXP(8)  3 Len=38(8)  4 ExID=0x5352(16)
//	 6 flags(8)  7 version=2(8)
//	 8 token(64)
//	16 t1(48)  22 echo_t1(48)  28 echo_t2(48)
//	34 credit(32)  38 credit_seq(16)
//
// The token proves that the sender received a HELLO_ACK of the receiver: it is the
// Hello.Token of that. An option with another token is stripped and not believed.
//
// Times are modulo 2^48 ns, which is 78 hours. The receiver extends the times of its own
// clock from its present time, and takes differences between two clocks modulo 2^48.
//
// The option checksum, OCS (RFC 9868 sections 8 and 9), which bpf/lib/stamp.h
// computes too:
//
//   - Summed is the whole surplus area as big-endian 16-bit words, with the OCS
//     field itself taken as zero, PLUS the length of the surplus area (40) as one
//     more 16-bit word. There is no pseudo-header. OCS is the complement of the
//     folded one's complement sum.
//   - A computed OCS of 0x0000 is sent as 0xFFFF, so an OCS in use is never zero.
//   - To verify, sum the area with the OCS in it, plus 40: folded, 0xFFFF is good.
//   - OCS 0x0000 means unused. That is allowed, and accepted unread, only if the
//     UDP checksum is zero too; with a nonzero UDP checksum such an option must be
//     ignored. Senders must use the OCS by default, and we always do.
//   - If the OCS is wrong, all options are ignored and the UDP data is delivered.
//   - OCS must lie on an even offset from the start of the IP datagram, with one
//     zero byte before it if the area starts on an odd one. RoCEv2 datagrams end on
//     a multiple of 4, so ours always starts at once; an area with that pad byte is
//     not ours.
//
// Why the length is in the sum: a middlebox that wrongly extends the UDP checksum
// over the surplus area then still gets the same checksum.
//
// Kind 127 (EXP) is a SAFE option: a receiver that does not know it skips it by
// its length. Len counts from Kind on, as RFC 9868 section 10 wants it. No EOL is
// needed, since the option ends where the area ends. The ExID 0x5352 ("SR") is not
// registered with IANA.
const (
	// StampLen is what a stamp adds to a datagram in bytes.
	StampLen = 40

	stampKind    = 127
	stampOptLen  = 38
	stampExID    = 0x5352
	StampVersion = 2
)

// Flags of a stamp.
const (
	StampT1     uint8 = 1 << iota // T1 is valid
	StampEcho                     // EchoT1 and EchoT2 are valid
	StampCredit                   // Credit and CreditSeq are valid
	StampCE                       // CE was seen since the last echo
)

// StampTimeMask are the bits of a time that a stamp carries.
const StampTimeMask = 1<<48 - 1

// Stamp is the decoded option. Times are nanoseconds of the sender's clock (S1.2
// to S1.4), modulo 2^48: Put drops the higher bits.
type Stamp struct {
	Flags     uint8
	Token     uint64 // token that the sender got by the receiver's HELLO_ACK
	T1        uint64 // send time of this packet
	EchoT1    uint64 // T1 of the latest stamp received from the peer, the peer's clock
	EchoT2    uint64 // arrival time of that stamp
	Credit    uint32 // S5.5
	CreditSeq uint16
}

// Put writes the 40 bytes of the option with its OCS to b. It panics if b is
// shorter than StampLen.
func (s *Stamp) Put(b []byte) {
	b = b[:StampLen]
	b[0], b[1] = 0, 0
	b[2], b[3] = stampKind, stampOptLen
	binary.BigEndian.PutUint16(b[4:6], stampExID)
	b[6], b[7] = s.Flags, StampVersion
	binary.BigEndian.PutUint64(b[8:16], s.Token)
	echoT1, echoT2 := s.EchoT1&StampTimeMask, s.EchoT2&StampTimeMask
	binary.BigEndian.PutUint64(b[16:24], s.T1<<16|echoT1>>32)
	binary.BigEndian.PutUint64(b[24:32], echoT1<<32|echoT2>>16)
	binary.BigEndian.PutUint64(b[32:40], echoT2<<48|uint64(s.Credit)<<16|uint64(s.CreditSeq))
	binary.BigEndian.PutUint16(b[0:2], computeOCS(b))
}

// computeOCS returns the option checksum of a surplus area whose OCS field is zero.
func computeOCS(area []byte) uint16 {
	if c := ^uint16(onesSum(uint32(len(area)), area)); c != 0 {
		return c
	}
	return 0xFFFF
}

// validOCS judges the option checksum of a surplus area of at least two bytes that
// starts on an even offset.
func validOCS(area []byte, udpChecksum uint16) bool {
	if area[0] == 0 && area[1] == 0 {
		return udpChecksum == 0
	}
	return onesSum(uint32(len(area)), area) == 0xFFFF
}

// isStamp tells our option from others by its size, kind, length and ExID.
func isStamp(area []byte) bool {
	return len(area) == StampLen && area[2] == stampKind && area[3] == stampOptLen &&
		binary.BigEndian.Uint16(area[4:6]) == stampExID
}

// DecodeStamp reads the stamp option of a surplus area. udpChecksum is the field
// of the UDP header, which decides whether OCS may be zero.
//
// Errors: ErrNoSurplus, ErrStampForeign, ErrStampChecksum, ErrStampVersion. An
// option of another version is ours to strip, unread; the others are not.
func DecodeStamp(area []byte, udpChecksum uint16) (Stamp, error) {
	switch {
	case len(area) == 0:
		return Stamp{}, ErrNoSurplus
	case !isStamp(area):
		return Stamp{}, ErrStampForeign
	case !validOCS(area, udpChecksum):
		return Stamp{}, ErrStampChecksum
	case area[7] != StampVersion:
		return Stamp{}, ErrStampVersion
	}
	a, b, c := binary.BigEndian.Uint64(area[16:24]), binary.BigEndian.Uint64(area[24:32]), binary.BigEndian.Uint64(area[32:40])
	return Stamp{
		Flags:     area[6],
		Token:     binary.BigEndian.Uint64(area[8:16]),
		T1:        a >> 16,
		EchoT1:    (a<<32 | b>>32) & StampTimeMask,
		EchoT2:    (b<<16 | c>>48) & StampTimeMask,
		Credit:    uint32(c >> 16),
		CreditSeq: uint16(c),
	}, nil
}

// AppendStamp appends the option to the IP datagram, growing the slice by StampLen,
// and corrects IP length and IPv4 checksum. The datagram must end with its UDP
// datagram. UDP length, UDP checksum and ICRC stay as they are.
//
// Errors: those of ParseIP, ErrSurplus, ErrTooBig. The datagram is unchanged then.
func AppendStamp(datagram []byte, s *Stamp) ([]byte, error) {
	p, err := ParseIP(datagram)
	if err != nil {
		return datagram, err
	}
	if p.end != p.surplus {
		return datagram, ErrSurplus
	}
	total := p.IPLen() + StampLen
	if total > 0xFFFF {
		return datagram, ErrTooBig
	}
	datagram = append(datagram[:p.end], make([]byte, StampLen)...)
	s.Put(datagram[p.end:])
	setIPLength(datagram, total)
	return datagram, nil
}

// StripStamp removes the option from the IP datagram in place, corrects IP length
// and IPv4 checksum, and returns the shortened datagram with what the option said.
//
// Errors: those of ParseIP and DecodeStamp. The datagram is unchanged then, except
// with ErrStampVersion, where the option is removed but not read.
func StripStamp(datagram []byte) ([]byte, Stamp, error) {
	p, err := ParseIP(datagram)
	if err != nil {
		return datagram, Stamp{}, err
	}
	s, err := p.Stamp()
	if err != nil && err != ErrStampVersion {
		return datagram, s, err
	}
	setIPLength(datagram, int(p.surplus-p.ip))
	return datagram[:p.surplus], s, err
}
