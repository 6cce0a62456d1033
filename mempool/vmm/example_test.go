// SPDX-License-Identifier: Apache-2.0

package vmm_test

import (
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/mempool/vmm"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A region of 16 MB of which 1 MB is local.
func ExampleRegion() {
	r, err := vmm.NewRegion(vmm.Config{Size: 16 << 20, Local: 1 << 20}, &memStore{})
	check(err)
	defer r.Close()
	for i := range int64(16) {
		_, err = r.WriteAt(fmt.Appendf(nil, "megabyte %d", i), i<<20)
		check(err)
	}
	b := make([]byte, 10)
	_, err = r.ReadAt(b, 3<<20)
	check(err)
	fmt.Printf("%s\n", b)

	// The bytes of a pinned range are in local memory, one after the other.
	pinned, release, err := r.Pin(5<<20, 10, true)
	check(err)
	copy(pinned, "MEGA")
	release()
	_, err = r.ReadAt(b, 5<<20)
	check(err)
	fmt.Printf("%s\n", b)

	// Output:
	// megabyte 3
	// MEGAbyte 5
}

// A map of 16 MB of which 1 MB is local. TestMain calls vmm.Main first, as main has to.
func ExampleMap() {
	m, err := vmm.NewMap(vmm.MapConfig{Config: vmm.Config{Size: 16 << 20, Local: 1 << 20}})
	if errors.Is(err, vmm.ErrUnsupported) { // it says why; a Region works here
		fmt.Println("255 parts of 256")
		return
	}
	check(err)
	defer m.Close()
	b := m.Bytes()
	for i := range b {
		b[i] = byte(i >> 16) // each 64 KB has a value
	}
	var sum int
	err = vmm.Try(func() {
		for i := 0; i < len(b); i += 1 << 16 {
			if b[i] > 0 {
				sum++
			}
		}
	})
	check(err)
	fmt.Println(sum, "parts of 256")

	// Output:
	// 255 parts of 256
}

// A store that fails READs shows what an application sees of it.
func ExamplePageError() {
	store := &memStore{}
	r, err := vmm.NewRegion(vmm.Config{Size: 1 << 20, Local: 64 << 10}, store)
	if err != nil {
		panic(err)
	}
	defer r.Close()
	if _, err := r.WriteAt(make([]byte, 1<<20), 0); err != nil {
		panic(err)
	}
	store.SetErrors(func(page int64) error { return errors.New("the server is gone") }, nil)
	_, err = r.ReadAt(make([]byte, 10), 0)
	fmt.Println(err)

	// Output:
	// vmm: page at offset 0x0: the server is gone
}
