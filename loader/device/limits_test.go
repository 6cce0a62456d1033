// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Each limit is refused with an error that names it, in a process and in all of a user, and is free
// again when the process has ended.
func TestLimits(t *testing.T) {
	const most = 5
	uses := map[limits.Kind]func(d *client.Device, pd verbs.PD, cq verbs.CQ) error{
		limits.QPs: func(_ *client.Device, pd verbs.PD, cq verbs.CQ) error {
			_, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
			return err
		},
		limits.WRs: func(_ *client.Device, pd verbs.PD, _ verbs.CQ) error { // one is one unit of 64
			_, err := pd.CreateSRQ(64, 1)
			return err
		},
		limits.SRQs: func(_ *client.Device, pd verbs.PD, _ verbs.CQ) error {
			_, err := pd.CreateSRQ(4, 1)
			return err
		},
		limits.MRs: func(d *client.Device, pd verbs.PD, _ verbs.CQ) error {
			b, err := d.Alloc(64)
			if err == nil {
				_, err = pd.RegMR(b, verbs.AccessLocalWrite)
			}
			return err
		},
		limits.Bytes: func(_ *client.Device, pd verbs.PD, _ verbs.CQ) error {
			_, err := pd.RegMR(make([]byte, 64), verbs.AccessLocalWrite)
			return err
		},
		limits.MWs: func(_ *client.Device, pd verbs.PD, _ verbs.CQ) error {
			_, err := pd.AllocMW()
			return err
		},
		limits.AHs: func(_ *client.Device, pd verbs.PD, _ verbs.CQ) error {
			_, err := pd.CreateAH(verbs.AddressVector{Dst: here})
			return err
		},
		limits.CQs: func(d *client.Device, _ verbs.PD, _ verbs.CQ) error {
			_, err := d.CreateCQ(1)
			return err
		},
		limits.CQEntries: func(d *client.Device, _ verbs.PD, _ verbs.CQ) error {
			_, err := d.CreateCQ(64)
			return err
		},
		limits.Arenas: func(d *client.Device, _ verbs.PD, _ verbs.CQ) error {
			_, err := d.Alloc(1 << 20)
			return err
		},
		limits.Listeners: func(d *client.Device, _ verbs.PD, _ verbs.CQ) error {
			_, err := rdma.Listen(t.Context(), d, "127.0.0.1:0")
			return err
		},
	}
	for _, kind := range limits.Kinds() {
		switch kind {
		case limits.Processes, limits.Connections, limits.Calls: // TestProcessesOfUser, TestConnectionLimits, rate_test.go
			continue
		case limits.Mappings, limits.Descriptors: // shares_test.go
			continue
		}
		if uses[kind] == nil {
			t.Errorf("%s is not tested", kind)
		}
	}
	for kind, use := range uses {
		unit := map[limits.Kind]uint64{limits.WRs: 64, limits.Bytes: 64, limits.CQEntries: 64, limits.Arenas: 1 << 20}[kind]
		for _, scope := range []limits.Scope{limits.PerProcess, limits.PerUser} {
			t.Run(limits.Flag(scope, kind), func(t *testing.T) {
				allowed := uint64(most) * max(unit, 1)
				if kind == limits.CQs || kind == limits.CQEntries {
					allowed += max(unit, 1) // that of the queue pairs
				}
				l := limits.Defaults()
				if scope == limits.PerProcess {
					l.Process[kind] = allowed
				} else {
					l.User[kind] = allowed
				}
				s, dir := serve(t, device.Config{Limits: &l})
				for range 2 {
					useUp(t, dir, kind, scope, most, use)
					testkit.Eventually(t, "no process is left", func() bool { return len(s.Status().Processes) == 0 })
				}
			})
		}
	}
}

// useUp opens the device and uses it until a limit refuses more, which must be after most times.
func useUp(t *testing.T, dir string, kind limits.Kind, scope limits.Scope, most int, use func(*client.Device, verbs.PD, verbs.CQ) error) {
	d := open(t, dir)
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := d.CreateCQ(64)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for n <= most && err == nil {
		if err = use(d, pd, cq); err == nil {
			n++
		}
	}
	if n != most || !errors.Is(err, proto.ErrLimit) || !strings.Contains(err.Error(), "--"+limits.Flag(scope, kind)) {
		t.Errorf("%d of %d, then %v", n, most, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// What a process destroys is free at once.
func TestLimitsAreGivenBack(t *testing.T) {
	l := limits.Defaults()
	l.Process[limits.QPs], l.Process[limits.MRs], l.Process[limits.CQEntries] = 1, 1, 4
	s, dir := serve(t, device.Config{Limits: &l})
	d := open(t, dir)
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	empty := s.Status()
	for range 3 {
		cq, err := d.CreateCQ(4)
		if err != nil {
			t.Fatal(err)
		}
		q, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
		if err != nil {
			t.Fatal(err)
		}
		r, err := pd.RegMR(b, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(q.Destroy(), cq.Destroy(), r.Deregister()); err != nil {
			t.Fatal(err)
		}
		if got := s.Status(); got.Processes[0] != empty.Processes[0] {
			t.Errorf("%+v, before %+v", got, empty)
		}
	}
	if err := pd.Free(); err != nil {
		t.Error(err)
	}
}

// A user may have so many processes.
func TestProcessesOfUser(t *testing.T) {
	l := limits.Defaults()
	l.User[limits.Processes] = 2
	s, dir := serve(t, device.Config{Limits: &l})
	a := open(t, dir)
	open(t, dir)
	if _, err := client.Open(t.Context(), "lo", client.Config{RunDir: dir}); !errors.Is(err, proto.ErrLimit) {
		t.Errorf("a third process: %v", err)
	}
	a.Close()
	testkit.Eventually(t, "one process is left", func() bool { return len(s.Status().Processes) == 1 })
	open(t, dir)
}
