// SPDX-License-Identifier: Apache-2.0

package xsk_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/xsk"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

func TestOpenErrors(t *testing.T) {
	ends := newCable(t, topo.CableSpec{MTU: 9000, Queues: 2})
	end := ends[0]
	open := func(c xsk.Config) (s *xsk.Socket, err error) {
		_ = end.Host.Do(func() error { s, err = xsk.Open(c); return nil })
		return s, err
	}
	first, err := open(xsk.Config{Ifindex: end.Index, SG: true})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	for name, c := range map[string]struct {
		conf xsk.Config
		want string
	}{
		"no interface":        {xsk.Config{}, "interface index 0"},
		"other interface":     {xsk.Config{Ifindex: 9999}, "namespace"},
		"queue taken":         {xsk.Config{Ifindex: end.Index, SG: true}, "another AF_XDP socket"},
		"no such queue":       {xsk.Config{Ifindex: end.Index, SG: true, Queue: 2}, "it has 2"},
		"negative queue":      {xsk.Config{Ifindex: end.Index, Queue: -1}, "count from 0"},
		"MTU without SG":      {xsk.Config{Ifindex: end.Index, Queue: 1}, "set SG"},
		"no zero-copy":        {xsk.Config{Ifindex: end.Index, Queue: 1, SG: true, Mode: xsk.ZeroCopy}, "choose Auto or Copy"},
		"frame size":          {xsk.Config{Ifindex: end.Index, FrameSize: 8192}, "2048 or 4096"},
		"too many frames":     {xsk.Config{Ifindex: end.Index, RxFrames: 1 << 30}, "choose"},
		"too many to send":    {xsk.Config{Ifindex: end.Index, TxFrames: 1 << 30}, "choose"},
		"reserve of most":     {xsk.Config{Ifindex: end.Index, RxFrames: 128, RxReserve: 65}, "half of them"},
		"long without SG":     {xsk.Config{Ifindex: end.Index, TxPacket: 5000}, "set SG"},
		"longer than anybody": {xsk.Config{Ifindex: end.Index, TxPacket: 1 << 20, SG: true}, "choose"},
		"mode":                {xsk.Config{Ifindex: end.Index, Mode: 7}, "choose Auto"},
		"busy poll":           {xsk.Config{Ifindex: end.Index, BusyPoll: time.Hour}, "choose 0 to 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := open(c.conf)
			if err == nil {
				s.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: does not say %q", err, c.want)
			}
		})
	}
	if _, err := open(xsk.Config{Ifindex: end.Index, SG: true}); !errors.Is(err, xsk.ErrBusy) {
		t.Errorf("not ErrBusy: %v", err)
	}
}

// The test binary runs itself with fewer rights: a child opens a socket in the
// namespace that it was started in and prints what it was told.
func TestOpenWithoutRights(t *testing.T) {
	if spec := os.Getenv("XSK_TEST_OPEN"); spec != "" {
		var index int
		fmt.Sscan(spec, &index)
		s, err := xsk.Open(xsk.Config{Ifindex: index})
		fmt.Println(err)
		if err == nil {
			s.Close()
		}
		return
	}
	ends := newCable(t, topo.CableSpec{})
	for name, c := range map[string]struct {
		prefix []string
		want   string
	}{
		"as root":        {[]string{"env"}, "<nil>"},
		"no CAP_NET_RAW": {[]string{"setpriv", "--bounding-set=-net_raw"}, "CAP_NET_RAW"},
		"little memory":  {[]string{"prlimit", "--memlock=1048576", "setpriv", "--bounding-set=-ipc_lock"}, "ulimit -l"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append(c.prefix, os.Args[0], "-test.run=^TestOpenWithoutRights$", "-test.count=1")
			cmd := exec.Command("nsenter", append([]string{"--net=" + ends[0].Host.NamespacePath(), "--"}, args...)...)
			cmd.Env = append(os.Environ(), fmt.Sprintf("XSK_TEST_OPEN=%d", ends[0].Index))
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: does not say %q:\n%s", err, c.want, out)
			}
		})
	}
}
