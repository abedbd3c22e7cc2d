package backup

import (
	"slices"
	"time"
)

// Retention says what is kept of each cluster.
type Retention struct {
	// Keep is how many are kept, the newest; at least one.
	Keep int
	// MaxAge is for how long; zero means for ever. The newest one is kept whatever its age.
	MaxAge time.Duration
}

// Expired gives the backups of one cluster that are to be removed, oldest first.
func (r Retention) Expired(all []Manifest, now time.Time) []Manifest {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b Manifest) int { return a.Time.Compare(b.Time) })
	var expired []Manifest
	for i, m := range sorted {
		newer := len(sorted) - 1 - i
		if newer > 0 && (newer >= max(r.Keep, 1) || (r.MaxAge > 0 && now.Sub(m.Time) > r.MaxAge)) {
			expired = append(expired, m)
		}
	}
	return expired
}

// peers gives the backups that were asked for in the same way as this one. Those that people took are not removed because hooks took others.
func peers(all []Manifest, of Manifest) []Manifest {
	return slices.DeleteFunc(slices.Clone(all), func(m Manifest) bool { return (m.Reason == ReasonManual) != (of.Reason == ReasonManual) })
}
