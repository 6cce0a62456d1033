// SPDX-License-Identifier: Apache-2.0

package loader_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/softroce/softroce-xdp/loader"
)

// The data plane is attached to an interface, its destinations are listed, and it is detached. This
// needs root. No agent runs here, so rates do not change.
func ExampleAttach() {
	o := loader.Options{Pacer: loader.PacerEDT, RateBps: 25e9}
	a, err := loader.Attach("eth0", o)
	if errors.Is(err, loader.ErrAttached) {
		a, err = loader.Open("eth0", o)
	}
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	fmt.Println("attached in mode", a.State.XDPMode, "with the pacer", a.State.Pacer)
	if err := a.EachRow(func(r loader.Row) { fmt.Println(r.Addr) }); err != nil {
		log.Fatal(err)
	}
	if err := loader.Detach("eth0", o); err != nil {
		log.Fatal(err)
	}
}
