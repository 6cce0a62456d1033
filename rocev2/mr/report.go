// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"encoding/binary"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Report says what became of a message in a distribution region (S2.7). It is the payload of
// a SEND to the origin, on the queue pair on which the message arrived. The origin posts a
// receive for each.
type Report struct {
	QPN          uint32                        // own queue pair on which the message arrived; not in the payload
	Message      uint32                        // number of the message, from 0 on, of its region
	VA           uint64                        // address as the origin named it
	Length       uint32                        // bytes
	Destinations uint8                         // entries of Status
	Status       [MaxDestinations]verbs.Status // status by destination, in the order of the group
}

// ReportLen is the length of a report in bytes:
//
//	0  version (1)     1  destinations    2  zero (16 bits)
//	4  message         8  VA (64 bits)   16  length
//	20 status of destination 0 to 3, one byte each, 0 where there is none
//
// All fields are big-endian. A status has the number of verbs.Status, 0 = delivered.
const ReportLen = 24

const reportVersion = 1

// AppendTo appends the payload to b.
func (r *Report) AppendTo(b []byte) []byte {
	b = append(b, reportVersion, r.Destinations, 0, 0)
	b = binary.BigEndian.AppendUint32(b, r.Message)
	b = binary.BigEndian.AppendUint64(b, r.VA)
	b = binary.BigEndian.AppendUint32(b, r.Length)
	for _, s := range r.Status {
		b = append(b, byte(s))
	}
	return b
}

// ParseReport parses the payload of a report.
func ParseReport(b []byte) (Report, error) {
	switch {
	case len(b) != ReportLen:
		return Report{}, fmt.Errorf("mr: a report of %d bytes: it has %d", len(b), ReportLen)
	case b[0] != reportVersion:
		return Report{}, fmt.Errorf("mr: a report of version %d: this program knows %d", b[0], reportVersion)
	case b[1] == 0 || b[1] > MaxDestinations:
		return Report{}, fmt.Errorf("mr: a report of %d destinations: a group has 1 to %d", b[1], MaxDestinations)
	}
	r := Report{
		Destinations: b[1], Message: binary.BigEndian.Uint32(b[4:]),
		VA: binary.BigEndian.Uint64(b[8:]), Length: binary.BigEndian.Uint32(b[16:]),
	}
	for i := range r.Status[:r.Destinations] {
		r.Status[i] = verbs.Status(b[20+i])
	}
	return r, nil
}

// Delivered reports whether all destinations have the data.
func (r *Report) Delivered() bool { return r.Status == [MaxDestinations]verbs.Status{} }
