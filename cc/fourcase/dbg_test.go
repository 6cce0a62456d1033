package fourcase
import ("testing";"time")
func TestDbg(t *testing.T){
 for _,run:=range []time.Duration{20*sec,60*sec,200*sec} {
 f:=incast(deep(10*mbit), func(f *fluid) { f.senders, f.buffer, f.run, f.warm = 8, 100*ms, run, run/2 })
 r:=f.simulate(1)
 t.Log(r, r.rates)
 }
}
func TestDbg2(t *testing.T){
 f:=incast(deep(100*mbit), emulatedBusy)
 f.run=40*sec
 f.onStep=func(at time.Duration,b,a uint64,s Sample,d Decision){ t.Log(at,s.Samples,s.RTT/1000,s.Tx/1000,b,a,d.Action,d.Reason()) }
 r:=f.simulate(1)
 t.Log(r, r.rates)
}
