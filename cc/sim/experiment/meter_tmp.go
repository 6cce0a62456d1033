package experiment
type meter struct{}
func (*meter) edge(bool) {}
func (*meter) sample(float64) (float64, float64) { return 0,0 }
func (*meter) values(map[string]float64, float64) {}
func (r *run) losses(map[string]float64) {}
