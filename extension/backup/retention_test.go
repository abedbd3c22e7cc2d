package backup

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestExpired(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	aged := func(days ...int) (all []Manifest) {
		for _, d := range days {
			at := now.AddDate(0, 0, -d)
			all = append(all, Manifest{Name: at.Format(time.DateOnly), Time: at})
		}
		return all
	}
	for name, c := range map[string]struct {
		keep Retention
		have []Manifest
		want []Manifest
	}{
		"no backups":                  {Retention{Keep: 3}, nil, nil},
		"as many backups as are kept": {Retention{Keep: 3}, aged(0, 1, 2), nil},
		"the oldest expire":           {Retention{Keep: 2}, aged(0, 3, 1, 2), aged(3, 2)},
		"backups that are too old expire": {Retention{Keep: 9, MaxAge: 36 * time.Hour}, aged(0, 1, 2, 3),
			aged(3, 2)},
		"the newest stays, whatever its age":       {Retention{Keep: 9, MaxAge: time.Hour}, aged(30, 40), aged(40)},
		"a count of zero still keeps one":          {Retention{}, aged(1, 2), aged(2)},
		"without a maximum age, the count decides": {Retention{Keep: 2}, aged(400, 500), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.keep.Expired(c.have, now)
			if !slices.EqualFunc(got, c.want, func(a, b Manifest) bool { return a.Name == b.Name }) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// TestAStepThatIsHeld: repeated backups for a blocked step do not push out the backups of earlier steps.
func TestAStepThatIsHeld(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	backup := func(uid, reason string, hours int) Manifest {
		return Manifest{
			Name: fmt.Sprint(uid, reason, hours), UID: uid, Reason: reason, Time: now.Add(-time.Duration(hours) * time.Hour),
		}
	}
	all := []Manifest{backup("1", "to-35", 900), backup("1", "to-36", 500), backup("2", "to-37", 400),
		backup("1", "to-37", 3), backup("1", "to-37", 2), backup("1", "to-37", 1), backup("1", "to-37", 0)}
	var gone []string
	for _, m := range (Retention{Keep: 4}).Expired(all, now) {
		gone = append(gone, m.Name)
	}
	if want := []string{"1to-373", "1to-372", "1to-371"}; !slices.Equal(gone, want) {
		t.Errorf("%v expire, want %v", gone, want)
	}
	gone = nil
	for _, m := range (Retention{Keep: 2, MaxAge: 600 * time.Hour}).Expired(all, now) {
		gone = append(gone, m.Name)
	}
	if want := []string{"1to-35900", "1to-36500", "1to-373", "1to-372", "1to-371"}; !slices.Equal(gone, want) {
		t.Errorf("%v expire, want %v", gone, want)
	}
}

func TestBackupsOfPeopleAreNotThoseOfHooks(t *testing.T) {
	manual, upgrade, deleted := Manifest{
		Name: "m", Reason: ReasonManual,
	}, Manifest{Name: "u", Reason: UpgradeReason("v1.35.4", "v1.36.3")}, Manifest{Name: "d", Reason: ReasonDelete}
	all := []Manifest{manual, upgrade, deleted}
	for name, c := range map[string]struct {
		of   Manifest
		want int
	}{"of people": {manual, 1}, "of an upgrade": {upgrade, 2}, "of a deletion": {deleted, 2}} {
		if got := peers(all, c.of); len(got) != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if len(all) != 3 || all[0].Name != "m" || all[2].Name != "d" {
		t.Errorf("the list was changed: %v", all)
	}
}
