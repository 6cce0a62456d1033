// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// counterOf is a counter of a device.
func counterOf(d verbs.Device, name string) uint64 {
	all := d.(verbs.Statistics).Counters()
	i := slices.IndexFunc(all, func(c verbs.Counter) bool { return c.Name == name })
	if i < 0 {
		panic("the device has no counter " + name)
	}
	return all[i].Value
}

// A process has the counters of its own queue pairs: a sender sees that its peer was not ready, the peer that it
// was not, and a bystander neither. The administrator has the sum, also when the processes have ended.
func TestCounters(t *testing.T) {
	s, dir := serve(t, device.Config{})
	sender, receiver, bystander := open(t, dir), open(t, dir), open(t, dir)
	a, b := newEnd(t, sender, 4096, verbs.QPInit{Type: verbs.RC}), newEnd(t, receiver, 4096, verbs.QPInit{Type: verbs.RC})
	connect(t, a, b)
	for range 2 { // the counters of a process are those of all its queue pairs
		if err := a.qp.PostSend(&verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.Signaled, SGL: a.sgl(0, 21)}); err != nil {
			t.Fatal(err)
		}
		before := counterOf(receiver, "send_rnr_err")
		testkit.Eventually(t, "an RNR NAK is sent", func() bool { return counterOf(receiver, "send_rnr_err") > before })
		if err := b.qp.PostRecv(&verbs.RecvWR{ID: 7, SGL: b.sgl(0, 64)}); err != nil {
			t.Fatal(err)
		}
		a.wait(t)
		b.wait(t)
		more := newEnd(t, sender, 4096, verbs.QPInit{Type: verbs.RC})
		if err := a.qp.Destroy(); err != nil {
			t.Fatal(err)
		}
		a, b = more, newEnd(t, receiver, 4096, verbs.QPInit{Type: verbs.RC})
		connect(t, a, b)
	}
	for _, c := range []struct {
		name string
		of   verbs.Device
		some bool
	}{
		{"rcvd_rnr_err", sender, true}, {"rcvd_rnr_err", receiver, false}, {"rcvd_rnr_err", bystander, false},
		{"send_rnr_err", sender, false}, {"send_rnr_err", receiver, true}, {"send_rnr_err", bystander, false},
		{"tx_retransmits", sender, true}, {"tx_retransmits", bystander, false}, {"tx_data_bytes", bystander, false},
	} {
		if n := counterOf(c.of, c.name); (n > 0) != c.some {
			t.Errorf("%s is %d", c.name, n)
		}
	}
	if n := counterOf(receiver, "rx_delivered"); n != 2 {
		t.Errorf("%d messages delivered", n)
	}
	rnr := counterOf(sender, "rcvd_rnr_err")
	if got := s.Status().Counters; got["rcvd_rnr_err"] != rnr || got["rx_delivered"] != 2 {
		t.Errorf("the device has counted %v; the sender %d", got, rnr)
	}
	last := sender.Counters()
	for _, d := range []verbs.Device{sender, receiver} {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	testkit.Eventually(t, "one process is left", func() bool { return len(s.Status().Processes) == 1 })
	if got := s.Status().Counters; got["rcvd_rnr_err"] != rnr || got["rx_delivered"] != 2 {
		t.Errorf("the device has counted %v; the sender %d", got, rnr)
	}
	if after := sender.Counters(); !reflect.DeepEqual(after, last) {
		t.Errorf("%v after the end of the device", after)
	}
}

// A process has the counters with the names of an engine in the same process.
func TestCounterNames(t *testing.T) {
	inProcess := devices.Loopback(t)
	all := map[string]string{}
	for _, c := range inProcess.Counters() {
		all[c.Name] = c.Text
	}
	_, dir := serve(t, device.Config{})
	got := open(t, dir).Counters()
	for _, c := range got {
		if text, ok := all[c.Name]; !ok || text != c.Text {
			t.Errorf("%s is %q, and %q of the engine", c.Name, c.Text, text)
		}
		delete(all, c.Name)
	}
	if len(got) < 40 || len(all) == 0 {
		t.Errorf("%d counters, and %d are missing", len(got), len(all))
	}
}
