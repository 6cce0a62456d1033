// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
)

// EngineLease is the lease of the engine of an interface, which has at most one: it has the
// QPNs that ingress steers, the AF_XDP sockets, and the capabilities that HELLO announces.
// Methods may be called from any goroutine, except Sync.
type EngineLease struct {
	att  *Attachment
	cfg  *LiveConfig
	lock *lease
	sync *bpf.EngineSync

	epochMem []byte // the map credit_epoch, nil = not mapped

	mu     sync.Mutex
	qpns   map[uint32]struct{}
	queues map[uint32]struct{}
	closed bool
}

// TakeEngineLease takes the lease of the engine on an attached interface. The entries of a
// killed engine are removed. If the interface has an engine, the error wraps
// ErrEngineRunning and names its process.
func (a *Attachment) TakeEngineLease() (_ *EngineLease, err error) {
	ifname := a.State.Interface
	s := &EngineLease{att: a, sync: bpf.NewEngineSync(a.engineSync), qpns: map[uint32]struct{}{}, queues: map[uint32]struct{}{}}
	if s.lock, err = waitEngineLease(a.opts.RunDir, ifname); err != nil {
		return nil, err
	}
	if !a.Alive() { // it was detached meanwhile
		s.lock.release()
		return nil, fmt.Errorf("%s: %w", ifname, ErrNotAttached)
	}
	if s.cfg, err = a.LiveConfig(); err != nil {
		s.lock.release()
		return nil, err
	}
	if err := clearSteering(a, s.cfg); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	setCaps(s.cfg, uint32(bpf.CapSACK|bpf.CapOOO), true)
	return s, nil
}

// waitEngineLease takes the lease of the engine. It waits for a process that has the lease to remove the entries of a killed
// engine.
func waitEngineLease(runDir, ifname string) (*lease, error) {
	take := func() (*lease, error) { return takeEngineLease(runDir, ifname) }
	return awaitLease(take, func() string { return leaseHolder(runDir, ifname, leaseEngine) })
}

// awaitLease takes a lease. It waits for a holder that cleans, up to DefaultPatience. That process notes it after it has taken the
// lease, so that each attempt may be too early: there are engineTries at least. A holder that has given up the lease since the
// attempt, "", is none.
func awaitLease(take func() (*lease, error), holder func() string) (*lease, error) {
	end := time.Now().Add(DefaultPatience)
	for tries := 1; ; tries++ {
		l, err := take()
		if !errors.Is(err, ErrEngineRunning) {
			return l, err
		}
		who := holder()
		waits := who == "" || strings.HasSuffix(who, cleaning)
		if tries >= engineTries && (!waits || !time.Now().Before(end)) {
			return nil, err
		}
		time.Sleep(time.Millisecond)
	}
}

const engineTries = 100

// Config is the interface's configuration in memory. The engine only reads it.
func (s *EngineLease) Config() *bpf.Config { return s.cfg.Config }

// Clock is the clock of the stamps.
func (s *EngineLease) Clock() StampClock { return s.att.State.Clock }

// CreditEpoch returns the number of the next pre-credit account (nic.Options.CreditEpoch), which lasts as
// long as the attachment. It is nil in an attachment of an earlier version, until that is upgraded. The
// memory is valid until Close.
func (s *EngineLease) CreditEpoch() (*atomic.Uint32, error) {
	if s.att.Maps.CreditEpoch == nil {
		return nil, nil
	}
	if s.epochMem == nil {
		mem, err := mapMemory(s.att.Maps.CreditEpoch)
		if err != nil {
			return nil, fmt.Errorf("credit_epoch: %w", err)
		}
		s.epochMem = mem
	}
	return bpf.WordOf(s.epochMem), nil
}

// Register puts the AF_XDP socket of a receive queue into the XSKMAP.
func (s *EngineLease) Register(queue, fd int) error {
	if err := s.att.Maps.Xsks.Put(uint32(queue), uint32(fd)); err != nil {
		return fmt.Errorf("%s: socket of queue %d: %w", s.att.State.Interface, queue, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[uint32(queue)] = struct{}{}
	if err := s.att.Maps.SteerTable.Put(socketsKey, bpf.Steer{Queues: uint32(len(s.queues))}); err != nil {
		return fmt.Errorf("%s: record the sockets: %w", s.att.State.Interface, err)
	}
	return nil
}

// socketsKey is the key of the entry in steer_table whose Queues is the number of sockets. It is
// no QPN, of which there are 24 bits.
const socketsKey = uint32(1<<32 - 1)

// EngineQueues returns the number of receive queues for which the engine has sockets, 0 = there is
// no engine.
func (a *Attachment) EngineQueues() int {
	var s bpf.Steer
	if a.Maps.SteerTable.Lookup(socketsKey, &s) != nil {
		return 0
	}
	return int(s.Queues)
}

// errLeaseClosed is the error of calls after Close, when the configuration is not mapped.
var errLeaseClosed = errors.New("the engine was closed")

// Steer makes ingress redirect packets to the QPN to the AF_XDP sockets.
func (s *EngineLease) Steer(qpn uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("%s: steer queue pair %#x: %w", s.att.State.Interface, qpn, errLeaseClosed)
	}
	// Programs of that version would redirect the kernel stack's messages too.
	if qpn == managementQPN && s.att.Maps.CmServices == nil {
		return s.noCM()
	}
	if err := s.att.Maps.SteerTable.Put(qpn, bpf.Steer{Queues: uint32(len(s.queues))}); err != nil {
		return fmt.Errorf("%s: steer queue pair %#x: %w", s.att.State.Interface, qpn, err)
	}
	s.qpns[qpn] = struct{}{}
	atomic.StoreUint32(&s.cfg.Steered, uint32(len(s.qpns)))
	return nil
}

// AnnounceCredit adds pre-credit to the capabilities that HELLO announces. It is called right
// after TakeEngineLease, so that the peers get both changes at once: a second HELLO of this
// host causes an answer only seconds later. The engine steers rocev2.ControlQPN when it has
// sockets. Until then ingress drops pre-credit messages, which are sent again.
func (s *EngineLease) AnnounceCredit() { setCaps(s.cfg, uint32(bpf.CapCredit), true) }

// Unsteer makes ingress pass packets to the QPN to the kernel stack again. After Close it does
// nothing: Close has removed all QPNs.
func (s *EngineLease) Unsteer(qpn uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.qpns[qpn]; !ok || s.closed {
		return nil
	}
	delete(s.qpns, qpn)
	atomic.StoreUint32(&s.cfg.Steered, uint32(len(s.qpns)))
	if err := s.att.Maps.SteerTable.Delete(qpn); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("%s: queue pair %#x: %w", s.att.State.Interface, qpn, err)
	}
	return nil
}

// Sync reports the packets that the engine sent to any number of destinations, and fills in
// rates, windows and capabilities from the table. It returns the number of slots for which it
// has done so: all unless there is an error. It has one caller at a time.
func (s *EngineLease) Sync(slots []bpf.EngineSlot) (reported int, err error) {
	for reported < len(slots) {
		n := min(len(slots)-reported, bpf.EngineSlots)
		if err := s.sync.Run(slots[reported : reported+n]); err != nil {
			return reported, err
		}
		reported += n
	}
	return reported, nil
}

// Close removes the engine's entries and capabilities, and releases the lease. The attachment
// stays open.
func (s *EngineLease) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := clearSteering(s.att, s.cfg)
	s.lock.release()
	if s.epochMem != nil {
		err = errors.Join(err, unix.Munmap(s.epochMem))
	}
	return errors.Join(err, s.cfg.Close())
}

// clearSteering removes the entries of an engine from the maps.
func clearSteering(a *Attachment, cfg *LiveConfig) error {
	setCaps(cfg, uint32(bpf.CapSACK|bpf.CapCredit|bpf.CapOOO), false)
	atomic.StoreUint32(&cfg.Steered, 0)
	errs := []error{clearMap[uint32](a.Maps.SteerTable), clearCM(a)}
	// The kernel removes a socket from the map when it is closed; those of an engine that
	// releases its lease may still be open.
	for q := range a.Maps.Xsks.MaxEntries() {
		if err := a.Maps.Xsks.Delete(q); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: clear the engine's entries: %w", a.State.Interface, err)
	}
	return nil
}

// setCaps changes the capabilities that HELLO announces. The agent detects the change in its
// next tick, and sends a HELLO to the peers.
func setCaps(cfg *LiveConfig, bits uint32, on bool) {
	for {
		old := atomic.LoadUint32(&cfg.Caps)
		caps := old | bits
		if !on {
			caps = old &^ bits
		}
		if atomic.CompareAndSwapUint32(&cfg.Caps, old, caps) {
			return
		}
	}
}

// CleanEngine removes the entries of a killed engine, and reports whether there were any. It
// does nothing while an engine runs.
func CleanEngine(a *Attachment) (bool, error) {
	cfg, err := a.LiveConfig()
	if err != nil {
		return false, err
	}
	defer cfg.Close()
	if atomic.LoadUint32(&cfg.Caps)&uint32(bpf.CapSACK) == 0 && atomic.LoadUint32(&cfg.Steered) == 0 {
		return false, nil
	}
	lock, err := takeEngineLease(a.opts.RunDir, a.State.Interface)
	if errors.Is(err, ErrEngineRunning) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.release()
	lock.cleans()
	return true, clearSteering(a, cfg)
}

// ErrEngineRunning: the interface has an engine.
var ErrEngineRunning = errors.New("an engine is running already")

func takeEngineLease(runDir, ifname string) (*lease, error) {
	l, err := takeLease(runDir, ifname, leaseEngine)
	if errors.Is(err, errLeased) {
		return nil, fmt.Errorf("%s: %w, %w: an interface has one at a time; end that first", ifname, ErrEngineRunning, err)
	}
	return l, err
}
