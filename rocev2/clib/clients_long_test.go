// SPDX-License-Identifier: Apache-2.0

//go:build long

package clib

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// A device whose agent does not answer cannot be opened, after 30 seconds.
func TestSilentAgent(t *testing.T) {
	require.Command(t, "make", "gcc")
	library := t.TempDir()
	makeLibrary(t, library)
	compile(t, library, "client")
	runClient(t, library, "client", "silent", func(t *testing.T, dir string, start func() *client) {
		release := make(chan struct{})
		serve(t, proto.SocketPath(dir, "eth0"), func(proto.Header, *reply) { <-release })
		t.Cleanup(func() { close(release) })
		start().expect(t, "interrupted")
	})
}
