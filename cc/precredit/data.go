// SPDX-License-Identifier: Apache-2.0

package precredit

// Arrival is a data packet that a receiver has got.
type Arrival struct {
	Bytes     uint32 // bytes of payload
	Credit    Credit // credit of its stamp
	HasCredit bool   // the data was sent on pre-credit
	First     bool   // the data is the first of its message
	Fresh     bool   // the data was new: this is its first arrival
}

// Data takes a data packet that is served at once: Arrive and DstScheduleCredit for one that was
// sent on pre-credit. One that is not fresh has no effect: it is a copy, or was
// dropped, and then counts as lost. The first packet of a message without pre-credit is a new flow, if its
// sender is not in the list. Data reports whether there may be grants to send.
func (r *Receiver) Data(now int64, id SenderID, a Arrival) bool {
	switch {
	case a.HasCredit && !a.Fresh:
		return false
	case a.HasCredit:
		r.Arrive(now, id, a.Bytes, a.Credit)
		r.DstScheduleCredit(now, id, a.Bytes)
	case a.First && r.Share(id) == 0:
		r.NewFlow(now, id)
	default:
		return false
	}
	return true
}
