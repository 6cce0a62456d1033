// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/softroce/softroce-xdp/rocev2/verbs"

// Send puts a copy of a work request on the send queue. The transport checks it. After an error it is not there.
func (e *Core) Send(x *QP, wr *verbs.SendWR) error {
	if err := x.transport.PostSend(wr); err != nil {
		return err
	}
	x.sendTaken++
	if x.hooked {
		e.hooks.onPosted(x, wr)
	}
	e.tx.markDirty(x)
	return nil
}

// Recv puts a copy of a receive on the receive queue. After an error it is not there.
func (e *Core) Recv(x *QP, wr *verbs.RecvWR) error {
	if err := x.q.PostRecv(wr); err != nil {
		return err
	}
	x.recvTaken++
	e.tx.markDirty(x)
	return nil
}

// LoseSend counts a work request that the application has posted and Send has refused: the state has changed since
// to RESET, which forgets work requests. Its place is free again.
func (e *Core) LoseSend(x *QP) {
	x.sendLost++
	e.tx.markDirty(x)
}

// LoseRecv is LoseSend for a receive.
func (e *Core) LoseRecv(x *QP) {
	x.recvLost++
	e.tx.markDirty(x)
}
