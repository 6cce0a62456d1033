// SPDX-License-Identifier: Apache-2.0

package proto

import "github.com/softroce/softroce-xdp/rocev2/verbs"

// MaxWaiting is how many calls that wait the server executes for a process at the same time. It refuses
// more with ErrBusyCalls. A client keeps them until another one has its reply.
const MaxWaiting = 16

// Waits reports whether a call may wait for a neighbour. The server executes all others in order.
func Waits(t Type, request any) bool {
	m, modify := request.(*ModifyQP)
	return t == TCreateAH || modify && verbs.AttrMask(m.Mask)&verbs.MaskAV != 0
}
