// SPDX-License-Identifier: Apache-2.0

// Package rdma is what an application imports to use RDMA: it opens devices and makes connections.
//
//	dev, err := rdma.Open(ctx, "eth0")                     // `softroce-xdp attach eth0 --nic`
//	c, err := rdma.Dial(ctx, dev, "10.0.0.2:7174")         // the peer calls rdma.Listen and Accept
//	err = c.Send(ctx, []byte("hello"))
//	n, err := c.Recv(ctx, buf)
//
// The example Dial is a complete client.
//
// # What a connection can do
//
//	Send, Recv            messages; bytes are copied, buffers are registered and posted by the connection
//	RecvMessage           a message in its buffer, without a copy
//	Read, Write           memory of the peer that a Remote describes; bytes are copied
//	Register, Do, Start   any work request (WRITE, READ, SEND, ATOMIC) with memory of the application, without a copy
//	Listen, Next, Reject  a server that decides on each request, by its private data for example
//	Resolve, Announce     UD queue pairs by address and port
//
// Package rocev2/rdma/stream has net.Conn and net.Listener over a connection.
//
// # Waiting, and its end
//
// Every call that waits takes a context. A peer that has closed is io.EOF for Recv and
// ErrPeerClosed for others; one that does not answer is StatusRetryExceeded after the retries of the
// queue pair, which the keep-alive causes also for a connection that only receives. Close wakes all that
// wait, and so does the end of the device.
//
// # Errors
//
// An Error has the operation, the peer and the verbs status of the work request that failed:
//
//	var e *rdma.Error
//	if errors.As(err, &e) && e.Status == verbs.StatusRemoteAccess { ... }
//	var r *rdma.RejectedError
//	if errors.As(err, &r) { fmt.Println(r.Reason, r.Private) }
//
// # Verbs
//
// Open returns a verbs.Device, whose queue pairs an application may also use by itself: the other
// examples show WRITE, READ, SEND, ATOMICs, UD and events. The names are those of package verbs.
// Dial, Listen and Resolve need a device that implements cm.Connector.
//
// # Drivers
//
// Open uses the device server of the agent. WithDriver chooses another driver, whose package is
// imported for its registration, as with database/sql:
//
//	server                              the device server: any user, many processes at a time
//	softroce   loader/engine            the engine in this process, on an attached interface; root
//	loopback   rocev2/nic/loopback      an engine without interface and root, for tests
//
// While `attach --nic` serves an interface, its engine is in the agent, and driver softroce is refused.
package rdma
