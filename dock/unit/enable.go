package unit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
)

// BootTarget is the target whose wants are started at boot.
const BootTarget = "multi-user.target"

// Enable creates the links that the unit's [Install] section asks for in dir, and returns them. A unit without such a
// section is an error.
func Enable(u *Unit, dir string) (made []string, err error) {
	if len(u.WantedBy) == 0 {
		return nil, fmt.Errorf("the unit file of %s has no [Install] section with WantedBy=, so it can't be enabled; use "+
			"systemctl start", u.Name)
	}
	for _, target := range u.WantedBy {
		if err := ValidName(target); err != nil {
			return made, err
		}
		wants := filepath.Join(dir, target+".wants")
		if err := os.MkdirAll(wants, 0o755); err != nil {
			return made, fmt.Errorf("enabling %s: %w", u.Name, err)
		}
		link := filepath.Join(wants, u.Name)
		err := os.Symlink(u.Path, link)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return made, fmt.Errorf("enabling %s: %w", u.Name, err)
		}
		made = append(made, link)
	}
	return made, nil
}

// Disable removes every link to the unit from the wants directories of dir, and returns the removed links.
func Disable(name, dir string) (removed []string, err error) {
	links, err := linksTo(name, dir)
	if err != nil {
		return nil, fmt.Errorf("disabling %s: %w", name, err)
	}
	for _, link := range links {
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, fmt.Errorf("disabling %s: %w", name, err)
		}
		removed = append(removed, link)
	}
	return removed, nil
}

// Enabled reports whether anything in dir wants the unit.
func Enabled(name, dir string) bool {
	links, err := linksTo(name, dir)
	return err == nil && len(links) > 0
}

// linksTo avoids globs because a unit's name may contain their special characters.
func linksTo(name, dir string) ([]string, error) {
	if err := ValidName(name); err != nil {
		return nil, err
	}
	wants, err := filepath.Glob(filepath.Join(dir, "*.wants"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, w := range wants {
		link := filepath.Join(w, name)
		if _, err := os.Lstat(link); err == nil {
			out = append(out, link)
		}
	}
	return out, nil
}

// WantedAtBoot returns the sorted names of all units that have a link in dir's directory for BootTarget's wants.
func WantedAtBoot(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, BootTarget+".wants"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing enabled units: %w", err)
	}
	var out []string
	for _, e := range entries {
		if ValidName(e.Name()) == nil {
			out = append(out, e.Name())
		}
	}
	sort.Strings(out)
	return out, nil
}
