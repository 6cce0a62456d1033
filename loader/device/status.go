// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Status is what the server serves now.
type Status struct {
	Processes []Process         `json:"processes"`
	Counters  map[string]uint64 `json:"counters"` // counters of the device that are not zero

	All []verbs.Counter `json:"-"` // the counters, with those at zero
}

// Process is a process that has opened the device, and what it uses.
type Process struct {
	PID          int    `json:"pid"`
	UID          uint32 `json:"uid"`
	QPs          uint64 `json:"queue_pairs"`
	CQs          uint64 `json:"completion_queues"`
	CQEntries    uint64 `json:"cq_entries"`
	SRQs         uint64 `json:"shared_receive_queues"`
	WRs          uint64 `json:"work_requests"` // work requests for which queues have room
	MRs          uint64 `json:"regions"`
	MWs          uint64 `json:"windows"`
	AHs          uint64 `json:"address_handles"`
	Bytes        uint64 `json:"registered_bytes"`
	Arenas       uint64 `json:"arena_bytes"`
	Connections  uint64 `json:"connections"`
	Listeners    uint64 `json:"listeners"`
	Mappings     uint64 `json:"mappings"`         // memory mappings in the server
	Descriptors  uint64 `json:"descriptors"`      // descriptors in the server, as it is charged
	CallsDelayed uint64 `json:"calls_delayed_ms"` // time that calls have waited for the rate of control messages
}

// of returns where a Process has what is in use of a kind, nil for a kind that it does not have.
func (p *Process) of(k limits.Kind) *uint64 {
	return map[limits.Kind]*uint64{
		limits.QPs: &p.QPs, limits.CQs: &p.CQs, limits.CQEntries: &p.CQEntries, limits.SRQs: &p.SRQs, limits.WRs: &p.WRs,
		limits.MRs: &p.MRs, limits.MWs: &p.MWs, limits.AHs: &p.AHs, limits.Bytes: &p.Bytes, limits.Arenas: &p.Arenas,
		limits.Connections: &p.Connections, limits.Listeners: &p.Listeners,
		limits.Mappings: &p.Mappings, limits.Descriptors: &p.Descriptors,
	}[k]
}

// Status returns the processes, ordered by their IDs, and the counters.
func (s *Server) Status() Status {
	st := Status{Processes: s.processes(), Counters: map[string]uint64{}}
	st.count(s.dev.Counters())
	return st
}

func (st *Status) count(all []verbs.Counter) {
	st.All = all
	for _, c := range all {
		if c.Value != 0 {
			st.Counters[c.Name] = c.Value
		}
	}
}

func (s *Server) processes() []Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []Process{}
	for c := range s.sessions {
		if !c.greeted.Load() { // it asks for the status, for example
			continue
		}
		p := Process{PID: int(c.process.pid), UID: c.process.uid, CallsDelayed: uint64(time.Duration(c.socket.costs.delayed.Load()).Milliseconds())}
		for _, u := range c.account.InUse() {
			if at := p.of(u.Kind); at != nil {
				*at = u.N
			}
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return all
}

// status answers a request for the status or for the counters of the device.
func (c *session) status(h proto.Header, body []byte) {
	req, _, _ := proto.Bodies(h.Type)
	err := proto.Decode(body, req)
	if err == nil {
		err = c.process.maySeeAll()
	}
	if err != nil {
		c.socket.reply(h, nil, nil, err)
		return
	}
	switch req := req.(type) {
	case *proto.StatusRequest:
		c.socket.reply(h, statusReply(c.s.processes(), req.First), nil, nil)
	case *proto.CountersRequest:
		c.socket.reply(h, countersReply(c.s.dev.Counters(), req.First), nil, nil)
	}
}

// part returns what a reply with room for n has of all, from the one with index first on.
func part[T any](all []T, first uint32, n int) []T {
	from := min(uint64(first), uint64(len(all)))
	return all[from:min(from+uint64(n), uint64(len(all)))]
}

func statusReply(all []Process, first uint32) *proto.StatusReply {
	r := &proto.StatusReply{Total: uint32(len(all))}
	for i, p := range part(all, first, proto.StatusPart) {
		r.Processes[i] = proto.ProcessStatus{
			PID: uint32(p.PID), UID: p.UID, QPs: p.QPs, CQs: p.CQs, CQEntries: p.CQEntries, SRQs: p.SRQs, WRs: p.WRs, MRs: p.MRs,
			MWs: p.MWs, AHs: p.AHs, Bytes: p.Bytes, Arenas: p.Arenas, Connections: p.Connections, Listeners: p.Listeners,
			Mappings: p.Mappings, Descriptors: p.Descriptors, CallsDelayed: p.CallsDelayed,
		}
		r.Count++
	}
	return r
}

func countersReply(all []verbs.Counter, first uint32) *proto.CountersReply {
	r := &proto.CountersReply{Total: uint32(len(all))}
	for i, c := range part(all, first, proto.CountersPart) {
		r.Counters[i] = proto.CounterOf(c)
		r.Count++
	}
	return r
}

// ReadStatus returns the status of the server with that socket.
func ReadStatus(ctx context.Context, socket string) (Status, error) {
	st := Status{Processes: []Process{}, Counters: map[string]uint64{}}
	for {
		var r proto.StatusReply
		if err := ask(ctx, socket, proto.TStatus, &proto.StatusRequest{First: uint32(len(st.Processes))}, &r); err != nil {
			return st, err
		}
		for _, p := range r.Processes[:min(r.Count, proto.StatusPart)] {
			st.Processes = append(st.Processes, Process{
				PID: int(p.PID), UID: p.UID, QPs: p.QPs, CQs: p.CQs, CQEntries: p.CQEntries, SRQs: p.SRQs, WRs: p.WRs, MRs: p.MRs,
				MWs: p.MWs, AHs: p.AHs, Bytes: p.Bytes, Arenas: p.Arenas, Connections: p.Connections, Listeners: p.Listeners,
				Mappings: p.Mappings, Descriptors: p.Descriptors, CallsDelayed: p.CallsDelayed,
			})
		}
		if r.Count == 0 || len(st.Processes) >= int(r.Total) {
			break
		}
	}
	var all []verbs.Counter
	for {
		var r proto.CountersReply
		if err := ask(ctx, socket, proto.TCounters, &proto.CountersRequest{First: uint32(len(all))}, &r); err != nil {
			return st, err
		}
		for _, c := range r.Counters[:min(r.Count, proto.CountersPart)] {
			all = append(all, c.Verbs())
		}
		if r.Count == 0 || len(all) >= int(r.Total) {
			st.count(all)
			return st, nil
		}
	}
}

// ask sends a message that is the only one of its connection, and reads the reply.
func ask(ctx context.Context, socket string, t proto.Type, req, reply any) error {
	if err := exchange(ctx, socket, t, req, reply); err != nil {
		return fmt.Errorf("device server %s: %w", socket, err)
	}
	return nil
}

func exchange(ctx context.Context, socket string, t proto.Type, req, reply any) error {
	c, err := proto.Dial(ctx, socket)
	if err != nil {
		return err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if err := proto.Write(c, proto.Append(nil, proto.Header{Type: t}, req)); err != nil {
		return err
	}
	b := make([]byte, proto.MaxMessage)
	n, fds, err := proto.Read(c, b)
	if err != nil {
		return err
	}
	proto.CloseFDs(fds)
	h, body, err := proto.Split(b[:n])
	if err != nil {
		return err
	}
	if h.Status != proto.StatusOK {
		return &proto.Error{Status: h.Status, Text: string(body)}
	}
	if err := proto.Decode(body, reply); err != nil {
		return fmt.Errorf("%w: %w", proto.ErrVersion, err) // these requests have no version
	}
	return nil
}
