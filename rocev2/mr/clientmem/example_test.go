// SPDX-License-Identifier: Apache-2.0

package clientmem_test

import (
	"fmt"
	"log"
	"os"
	"syscall"
	"unsafe"

	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/mr/clientmem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Both sides are in one process here; otherwise the descriptors go over a UNIX socket.
func Example_process() {
	files, err := clientmem.Self()
	if err != nil {
		log.Fatal(err)
	}
	defer files.Close()
	buf := make([]byte, os.Getpagesize())
	addr := uint64(uintptr(unsafe.Pointer(&buf[0])))
	if err := clientmem.Populate(addr, uint64(len(buf)), true); err != nil {
		log.Fatal(err)
	}

	var passed [3]int
	for i, fd := range files.FDs() {
		if passed[i], err = syscall.Dup(fd); err != nil {
			log.Fatal(err)
		}
	}
	p, err := clientmem.OpenProcess(passed[0], passed[1], passed[2])
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	spec, err := p.Spec(addr, uint64(len(buf)), verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	table, err := mr.New(mr.Config{})
	if err != nil {
		log.Fatal(err)
	}
	spec.PD = table.AllocPD()
	region, err := table.Register(spec)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(table.WriteRemote(spec.PD, 0x11, region.RKey(), addr, []byte("received")))
	fmt.Printf("%s\n", buf[:8])
	// Output:
	// none
	// received
}
