// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Each limit is refused with an error that names it, in a process and in all of a user, and is free
// again when the process has ended.
func TestLimits(t *testing.T) {
	const most = 5
	for name, c := range map[string]struct {
		set  func(*device.Limits)
		text string
		use  func(d *client.Device, pd verbs.PD) error
	}{
		"queue pairs": {func(l *device.Limits) { l.QPs = most }, "queue pairs", func(d *client.Device, pd verbs.PD) error {
			cq, err := d.CreateCQ(4)
			if err == nil {
				_, err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
			}
			return err
		}},
		"shared receive queues": {func(l *device.Limits) { l.QPs = most }, "queue pairs", func(_ *client.Device, pd verbs.PD) error {
			_, err := pd.CreateSRQ(4, 1)
			return err
		}},
		"regions": {func(l *device.Limits) { l.MRs = most }, "regions", func(d *client.Device, pd verbs.PD) error {
			b, err := d.Alloc(64)
			if err == nil {
				_, err = pd.RegMR(b, verbs.AccessLocalWrite)
			}
			return err
		}},
		"windows": {func(l *device.Limits) { l.MRs = most }, "windows", func(_ *client.Device, pd verbs.PD) error {
			_, err := pd.AllocMW()
			return err
		}},
		"completions": {func(l *device.Limits) { l.CQEntries = most << 6 }, "completion", func(d *client.Device, _ verbs.PD) error {
			_, err := d.CreateCQ(1 << 6)
			return err
		}},
		"bytes": {func(l *device.Limits) { l.Bytes = most << 20 }, "bytes", func(d *client.Device, _ verbs.PD) error {
			_, err := d.Alloc(1 << 20)
			return err
		}},
		"objects": {func(l *device.Limits) { l.Objects = most + 1 }, "objects", func(d *client.Device, _ verbs.PD) error { // and the domain
			_, err := d.AllocPD()
			return err
		}},
	} {
		for _, whose := range []string{"process", "user"} {
			t.Run(name+" of a "+whose, func(t *testing.T) {
				var conf device.Config
				if whose == "process" {
					c.set(&conf.Process)
				} else {
					c.set(&conf.User)
				}
				s, dir := serve(t, conf)
				for range 2 {
					d := open(t, dir)
					pd, err := d.AllocPD()
					if err != nil {
						t.Fatal(err)
					}
					n := 0
					for n <= most && err == nil {
						if err = c.use(d, pd); err == nil {
							n++
						}
					}
					if n != most || !errors.Is(err, proto.ErrLimit) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), whose) {
						t.Errorf("%d of %d, then %v", n, most, err)
					}
					if err := d.Close(); err != nil {
						t.Error(err)
					}
					wait(t, func() bool { return len(s.Status().Processes) == 0 })
				}
			})
		}
	}
}

// What a process destroys is free at once.
func TestLimitsAreGivenBack(t *testing.T) {
	s, dir := serve(t, device.Config{Process: device.Limits{QPs: 1, MRs: 1, CQEntries: 4}})
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
	s, dir := serve(t, device.Config{User: device.Limits{Processes: 2}})
	a := open(t, dir)
	open(t, dir)
	if _, err := client.Open(t.Context(), "lo", client.Config{RunDir: dir}); !errors.Is(err, proto.ErrLimit) {
		t.Errorf("a third process: %v", err)
	}
	a.Close()
	wait(t, func() bool { return len(s.Status().Processes) == 1 })
	open(t, dir)
}
