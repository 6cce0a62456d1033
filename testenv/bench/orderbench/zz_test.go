package orderbench
import ("testing";"fmt")
func TestZ(t *testing.T) {
	for _, l := range losses { for _, r := range reordering {
		f, err := measure(1, cell{l,r}, newOutOfOrder, 2000)
		fmt.Printf("%5g %4g | %5.0f %.3f | %4.0f %4.0f | %4.0f %4.0f (%.3f) | bound %.0f %v\n", l*100,r*100, f.goodput/1e6, f.ratio, f.full.p50, f.full.p99, f.load.p50, f.load.p99, f.loadRatio, bound(1, cell{l,r}, 2000, .4).p99, err)
	}}
}
