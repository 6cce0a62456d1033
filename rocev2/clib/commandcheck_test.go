// SPDX-License-Identifier: Apache-2.0

package clib

import (
	"context"
	"errors"
	"testing"
)

// printed is a program that has printed something and exited.
type printed struct {
	stdout, stderr string
	err            error
}

func (p printed) listens(context.Context) error             { return nil }
func (p printed) wait() (stdout, stderr string, exit error) { return p.stdout, p.stderr, p.err }
func (p printed) kill()                                     {}

// host is a host on which every program has this outcome.
func (p printed) host() *commandHost {
	return &commandHost{start: func(context.Context, []string) (process, error) { return p, nil }}
}

// A command fails if one of its programs has received invalid data, or lacks an ACK although no packet is lost.
func TestCommandChecks(t *testing.T) {
	passes := printed{stdout: "8192000 bytes in 0.01 seconds\n1000 iters in 0.01 seconds = 10 usec/iter\n"}
	invalid := printed{stdout: passes.stdout + "invalid data in page 1\n"}
	noACK := printed{passes.stdout, "Failed status transport retry counter exceeded (12) for wr_id 2\n", errors.New("exit status 1")}
	tests := []struct {
		name           string
		server, client printed
		fails          bool
	}{
		{"no error", passes, passes, false},
		{"invalid data at the server", invalid, passes, true},
		{"invalid data at the client", passes, invalid, true},
		{"no ACK at the server", noACK, passes, true},
		{"no ACK at the client", passes, noACK, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := command{line: "ibv_rc_pingpong -c"}.run(t.Context(), &commandLab{server: tt.server.host(), client: tt.client.host()})
			if (err != nil) != tt.fails {
				t.Errorf("error %v, want one: %t", err, tt.fails)
			}
		})
	}
}
