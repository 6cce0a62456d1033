// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/engine"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/testenv/lab/script"
)

// engineRefused is the command engine of scripts.
func engineRefused(ts *testscript.TestScript, _ bool, args []string) {
	reason := regexp.MustCompile(args[0])
	err := script.Hosts(ts).Host(1).Do(func() error {
		d, err := engine.Open("eth0", loader.Options{PinRoot: ts.Getenv("A_PINS"), RunDir: ts.Getenv("A_RUN")}, nic.Options{})
		if err == nil {
			_ = d.Close()
		}
		return err
	})
	if !errors.Is(err, loader.ErrEngineRunning) || !reason.MatchString(err.Error()) {
		ts.Fatalf("engine: %v; want loader.ErrEngineRunning and %q", err, args[0])
	}
}
