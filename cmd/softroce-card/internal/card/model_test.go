// SPDX-License-Identifier: Apache-2.0

package card

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// A model does not replace the socket of another one that has begun to listen meanwhile.
func TestModelsOfOneSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.sock")
	left := testkit.Must1(net.Listen("unix", path))(t)
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	testkit.Must(t, left.Close())
	unlock := testkit.Must1(lockPath(path))(t)
	second := make(chan error, 1)
	go func() {
		l, err := listenUnix(path)
		if err == nil {
			defer l.Close()
		}
		second <- err
	}()
	select {
	case err := <-second:
		t.Fatalf("the second model did not wait: %v", err)
	case <-time.After(50 * time.Millisecond): // it waits, or has not begun
	}
	testkit.Must(t, os.Remove(path))
	first := testkit.Must1(net.Listen("unix", path))(t)
	defer first.Close()
	unlock()
	if err := testkit.Receive(t, "the second model ends", second); err == nil {
		t.Error("the second model has taken the socket of the first one")
	}
}
