// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer/internal/agent"
)

// patience is how long the machine waits for its devices. It may stand still meanwhile, and its clock goes on.
const patience = 2 * time.Minute

func runAgent() error {
	problems := prepare()
	port, err := openPort(patience)
	if err != nil {
		return err
	}
	if err := agent.Announce(port); err != nil {
		return err
	}
	s := &agent.Server{SetUp: func(args agent.SetUp) agent.Hello {
		return agent.Hello{Kernel: release(), Problems: append(problems, setUp(args)...)}
	}}
	return s.Serve(port)
}

func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err.Error()
	}
	return unix.ByteSliceToString(u.Release[:])
}
