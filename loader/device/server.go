// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"

	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Config configures a server.
type Config struct {
	Socket string      // path, see proto.SocketPath
	Mode   fs.FileMode // mode of the socket; a user who may write to it may use the device. 0: 0600
	Group  *int        // group of the socket; nil: that of this process

	Rate func() uint64 // rate of the interface's link, bits per second, 0: not known; nil: not known

	Limits  *limits.Limits // nil: limits.Defaults. An All without any share: what the kernel allows, less a reserve
	Accepts uint64         // connections a second that are accepted on average; 0: 200
	Log     *slog.Logger
}

// Server serves a device to the processes that connect to its socket.
type Server struct {
	conf     Config
	log      *slog.Logger
	feeder   *feeder
	dev      *nic.Device
	listener *net.UnixListener
	accounts *limits.Accounts
	owners   sync.Map // verbs.QP, verbs.SRQ or verbs.CQ to owner

	mu       sync.Mutex
	sessions map[*session]struct{}
	ended    bool
	all      sync.WaitGroup
	accepts  limits.Bucket // accept's
	refused  chan struct{} // processes that are being refused
	closers  chan struct{} // connections that are being closed without an answer
	notes    chan note     // lines for the log from the engine's thread
	passed   chan struct{} // a process has passed its memory
	done     chan struct{} // closed when the device has ended
	close    sync.Once
}

// owner is the process of an object, and its handle.
type owner struct {
	c      *session
	handle uint32
}

// New makes a server. Its Feeder is an option of the device that it serves, so it comes first.
func New(c Config) (*Server, error) {
	f, err := newFeeder()
	if err != nil {
		return nil, fmt.Errorf("device server: %w", err)
	}
	s := &Server{
		conf: c, log: cmp.Or(c.Log, slog.New(slog.DiscardHandler)), feeder: f, sessions: map[*session]struct{}{}, done: make(chan struct{}),
		refused: make(chan struct{}, maxRefused), closers: make(chan struct{}, maxClosers), notes: make(chan note, noteBacklog),
		passed: make(chan struct{}, 1),
	}
	most := limits.Defaults()
	if c.Limits != nil {
		most = *c.Limits
	}
	if most.All == (limits.Limits{}).All {
		most.All = kernelShares()
	}
	s.accounts = limits.New(most)
	return s, nil
}

// Feeder returns what brings the work requests of processes to the device: nic.Options.Feeder.
func (s *Server) Feeder() nic.Feeder { return s.feeder }

// Serve begins to serve a device that was opened with the Feeder of this server. It returns when
// processes can connect. The server receives the device's events from here on.
func (s *Server) Serve(dev *nic.Device) error {
	s.dev = dev
	if err := s.answerRequests(); err != nil { // processes that open the communication manager get the reason, too
		s.log.Warn("requests to connect are not answered", "error", err)
	}
	if err := s.listen(); err != nil {
		return fmt.Errorf("device server: %w", err)
	}
	s.all.Go(s.accept)
	s.all.Go(s.follow)
	s.all.Go(s.guard)
	s.all.Go(s.writeNotes)
	return nil
}

// answerRequests starts the communication manager of the device, which begins with its first session. It rejects
// requests to ports without a listener from then on, also before a process uses it.
func (s *Server) answerRequests() error {
	session, err := s.dev.OpenCM()
	if err != nil {
		return err
	}
	return session.Close()
}

// listen makes the socket under another name first, so that nobody connects before it has its mode
// and group.
func (s *Server) listen() error {
	path := s.conf.Socket + ".new"
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	s.listener = l
	if err := configure(l); err != nil {
		return errors.Join(err, l.Close(), os.Remove(path))
	}
	err = os.Chmod(path, cmp.Or(s.conf.Mode, 0o600))
	if err == nil && s.conf.Group != nil {
		err = os.Chown(path, -1, *s.conf.Group)
	}
	if err == nil {
		err = os.Rename(path, s.conf.Socket)
	}
	if err != nil {
		_ = os.Remove(path)
		return errors.Join(err, l.Close())
	}
	return nil
}

func (s *Server) admit(c *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	c.socket.events = make(chan []byte, eventBacklog)
	s.sessions[c] = struct{}{}
	return true
}

const (
	lastLooks = 10 // looks at whether the processes were told why the device has ended
	endLooks  = 30 // looks at whether a device has ended whose interface was lost
)

// follow passes events of the device to the processes they concern. The last one says why it has ended.
func (s *Server) follow() {
	for e := range s.dev.Events() {
		s.event(e)
		if e.Type == verbs.EventDeviceFatal {
			s.dismiss()
			s.hangUp()
		}
	}
	s.hangUp()
}

// dismiss ends the connections after the events that are queued, and waits for that.
func (s *Server) dismiss() {
	s.mu.Lock()
	sockets := make([]*socket, 0, len(s.sessions))
	for c := range s.sessions {
		c.socket.event(nil)
		sockets = append(sockets, c.socket)
	}
	s.mu.Unlock()
	all := make(chan struct{})
	go func() {
		defer close(all)
		for _, k := range sockets {
			<-k.hung // at the latest by hangUp, which follows
		}
	}()
	looked(all, lastLooks)
}

// Ended is closed when the device has ended, by itself or by Close.
func (s *Server) Ended() <-chan struct{} { return s.done }

// AwaitEnd waits until the device has ended, for three seconds. That of an interface that was lost ends by itself, and tells its
// processes why. Close, called earlier, would keep it from telling them.
func (s *Server) AwaitEnd() { looked(s.done, endLooks) }

func (s *Server) event(e verbs.Event) {
	m := proto.Event{Type: uint32(e.Type), Addr: proto.AddrOf(e.Addr)}
	var about any
	switch {
	case e.QP != nil:
		about = e.QP
	case e.SRQ != nil:
		about = e.SRQ
	case e.CQ != nil:
		about = e.CQ
	}
	text := ""
	if e.Err != nil {
		text = e.Err.Error()
	}
	if about != nil {
		if o, ok := s.owners.Load(about); ok {
			m.Object = o.(owner).handle
			o.(owner).c.socket.event(eventBytes(&m, text))
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		c.socket.event(eventBytes(&m, text))
	}
}

func eventBytes(m *proto.Event, text string) []byte {
	return append(proto.Append(nil, proto.Header{Type: proto.TEvent}, m), text[:min(len(text), 1024)]...)
}

// hangUp ends all connections: to a client, the end of the connection is the end of the device.
func (s *Server) hangUp() {
	s.feeder.statusPage.Ended().Store(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		close(s.done)
	}
	for c := range s.sessions {
		c.socket.hangUp() // the goroutine of the client does the rest
	}
	if s.listener != nil {
		s.listener.Close()
	}
}

// Close ends all clients and the device. It returns when nothing of them is left. Further calls do
// nothing.
func (s *Server) Close() (err error) {
	s.close.Do(func() { err = s.end() })
	return err
}

func (s *Server) end() error {
	if s.dev == nil {
		s.feeder.close()
		return nil
	}
	s.hangUp()
	// Before the end of the device, since the next server may make its socket then.
	err := os.Remove(s.conf.Socket)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	err = errors.Join(err, s.dev.Close()) // whose events end, and with them follow
	s.all.Wait()
	s.feeder.close()
	return err
}
