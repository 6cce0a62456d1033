// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/softroce/softroce-xdp/testenv/lab/confine"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/script"
)

// unitFile is the unit that is installed.
const unitFile = "../../packaging/softroce-xdp@.service.in"

// Attach, the device and the pool work under the unit: with its capabilities, its system calls and its file system.
func TestUnderTheUnit(t *testing.T) {
	require.Root(t)
	require.Command(t, "nsenter", "unshare", "setpriv", "ip", "mount")
	programs := script.Build(t, "softroce-pool")
	testscript.Run(t, testscript.Params{
		Files: []string{"testdata/net/foreground.txt", "testdata/unit/nic.txt", "testdata/unit/pool.txt"},
		Cmds:  commands, RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			if err := script.With(programs, script.BuildHosts)(env); err != nil {
				return err
			}
			name, value, _ := strings.Cut(confine.Prepare(t, unitFile, filepath.Dir(env.WorkDir)), "=")
			env.Setenv(name, value)
			return nil
		},
	})
}
