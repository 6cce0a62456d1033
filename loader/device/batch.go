// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// batch executes the requests of a batch up to the first that fails, and returns the body of its reply with
// descriptors for it, which stay the server's: nothing in a batch that makes objects closes one.
func (c *session) batch(parts []proto.Part) (reply []byte, give []int) {
	m := made{}
	for _, p := range parts {
		m.fill(p.Request)
		r, fds, err := m.do(c, p)
		reply, give = proto.AppendReply(reply, proto.Header{Type: p.Type}, r, err), append(give, fds...)
		if err != nil || c.socket.over.Load() {
			break
		}
		m.note(r)
	}
	return reply, give
}

// made is what a batch has made: the handles of its queues.
type made struct {
	cq, qp  uint32
	settled bool // the engine has what was posted before the batch
}

// do executes a request.
func (m *made) do(c *session, p proto.Part) (any, []int, error) {
	x, ok := p.Request.(*proto.ModifyQP)
	if !ok {
		return c.do(p.Type, p.Request, nil)
	}
	if x.Handle != m.qp && !m.settled {
		c.settle()
		m.settled = true
	}
	return nil, nil, c.modify(x)
}

// fill puts the handles of what the batch has made where a request has 0.
func (m *made) fill(request any) {
	switch r := request.(type) {
	case *proto.CreateQP:
		r.SendCQ, r.RecvCQ = cmp.Or(r.SendCQ, m.cq), cmp.Or(r.RecvCQ, m.cq)
	case *proto.ModifyQP:
		r.Handle = cmp.Or(r.Handle, m.qp)
	}
}

func (m *made) note(reply any) {
	switch r := reply.(type) {
	case *proto.CreateCQReply:
		m.cq = r.Handle
	case *proto.CreateQPReply:
		m.qp = r.Handle
	}
}
