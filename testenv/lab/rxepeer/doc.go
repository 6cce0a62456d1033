// SPDX-License-Identifier: Apache-2.0

// Package rxepeer starts virtual machines that speak RoCEv2 with the Linux
// kernel's own driver, rdma_rxe, as the peer that our product is tested against.
//
// A machine is a Debian kernel and a small Debian user land (perftest, rdma-core,
// iproute2, bpftool) in one initrd, run by qemu without KVM. Its network card is a
// tap on a bridge in a network namespace, so it plugs into any topology that Go
// code can build. Commands enter over a virtio-serial port, not over the network,
// so a machine stays reachable while a test breaks its interface.
//
//	net, err := rxepeer.NewNet(1500)
//	vms, err := rxepeer.BootAll(ctx,
//		rxepeer.Config{Name: "a", NICs: []rxepeer.NIC{{Net: net, Addrs: ...}}},
//		rxepeer.Config{Name: "b", NICs: []rxepeer.NIC{{Net: net, Addrs: ...}}})
//	route, err := rxepeer.RouteTo(ctx, vms[1], vms[0], false)
//	for _, x := range rxepeer.Exchanges(route) {
//		out, err := vms[1].Exchange(ctx, vms[0], x)
//	}
//
// Machines end with Close, or with the process that booted them, however it ends: qemu gets
// the kernel's parent-death signal, and taps live only as long as qemu.
//
// Booting takes ten seconds of an emulated processor, so each kind of machine boots once: Boot saves its
// state and restores it from then on, for every machine of the kind, also in other processes.
// A state is made when the agent runs, the drivers are loaded and the files are there. It has no name,
// address or rxe device: these come after the restore, from the same code as after a boot. So do random
// numbers for the kernel's pool and the time of day. Memory is mapped from the state, and what a
// machine writes stays in its process. States are next to the image, under a hash of all that they
// depend on. One is removed when qemu says that it is no good, when the host has started anew, when more than a dozen
// were used later, or, below an image that is not in use, after a day.
// A machine whose state cannot be made or restored boots, and the reason is logged and in VM.Reason.
// Machines are not shared between tests: a restore costs less than a reset that a test could trust.
//
// The first Boot on a host builds the image (see EnsureImage), which needs the
// network, root for the taps, and the tools that CheckHost names. $SOFTROCE_VM_MIRROR and
// $SOFTROCE_VM_CACHE override the Debian mirror and the folder of images.
package rxepeer
