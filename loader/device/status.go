// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// Status is what the server serves now.
type Status struct {
	Processes []Process `json:"processes"`
}

// Process is a process that has opened the device, and what it uses.
type Process struct {
	PID       int    `json:"pid"`
	UID       uint32 `json:"uid"`
	QPs       uint64 `json:"queue_pairs"`
	CQEntries uint64 `json:"cq_entries"`
	MRs       uint64 `json:"regions"`
	Bytes     uint64 `json:"registered_bytes"`
	Arenas    uint64 `json:"arena_bytes"`
}

// Status returns the processes, ordered by their IDs.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{Processes: []Process{}}
	for c := range s.clients {
		if !c.greeted.Load() { // it asks for the status, for example
			continue
		}
		p := Process{PID: int(c.pid), UID: c.uid}
		for _, u := range c.account.InUse() {
			switch u.Kind {
			case limits.QPs:
				p.QPs = u.N
			case limits.CQEntries:
				p.CQEntries = u.N
			case limits.MRs:
				p.MRs = u.N
			case limits.Bytes:
				p.Bytes = u.N
			case limits.Arenas:
				p.Arenas = u.N
			}
		}
		st.Processes = append(st.Processes, p)
	}
	slices.SortFunc(st.Processes, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return st
}

var errNotYours = errors.New("only root and the user of the server may read its status")

// status answers a request for the status.
func (c *client) status(h proto.Header, body []byte) {
	var m proto.StatusRequest
	err := proto.Decode(body, &m)
	if err == nil && c.uid != 0 && c.uid != uint32(os.Getuid()) {
		err = errNotYours
	}
	all := c.s.Status().Processes
	r := &proto.StatusReply{Total: uint32(len(all))}
	for _, p := range all[min(int(m.First), len(all)):min(int(m.First)+proto.StatusPart, len(all))] {
		r.Processes[r.Count] = proto.ProcessStatus{
			PID: uint32(p.PID), UID: p.UID, QPs: p.QPs, CQEntries: p.CQEntries, MRs: p.MRs, Bytes: p.Bytes, Arenas: p.Arenas,
		}
		r.Count++
	}
	c.reply(h, r, nil, err)
}

// ReadStatus returns the status of the server with that socket.
func ReadStatus(ctx context.Context, socket string) (Status, error) {
	st := Status{Processes: []Process{}}
	for {
		r, err := readStatus(ctx, socket, uint32(len(st.Processes)))
		if err != nil {
			return st, fmt.Errorf("device server %s: %w", socket, err)
		}
		for _, p := range r.Processes[:min(r.Count, proto.StatusPart)] {
			st.Processes = append(st.Processes, Process{
				PID: int(p.PID), UID: p.UID, QPs: p.QPs, CQEntries: p.CQEntries, MRs: p.MRs, Bytes: p.Bytes, Arenas: p.Arenas,
			})
		}
		if r.Count == 0 || len(st.Processes) >= int(r.Total) {
			return st, nil
		}
	}
}

func readStatus(ctx context.Context, socket string, first uint32) (*proto.StatusReply, error) {
	c, err := proto.Dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if err := proto.Write(c, proto.Append(nil, proto.Header{Type: proto.TStatus}, &proto.StatusRequest{First: first})); err != nil {
		return nil, err
	}
	b := make([]byte, proto.MaxMessage)
	n, fds, err := proto.Read(c, b)
	if err != nil {
		return nil, err
	}
	proto.CloseFDs(fds)
	h, body, err := proto.Split(b[:n])
	if err != nil {
		return nil, err
	}
	if h.Status != proto.StatusOK {
		return nil, &proto.Error{Status: h.Status, Text: string(body)}
	}
	r := new(proto.StatusReply)
	return r, proto.Decode(body, r)
}
