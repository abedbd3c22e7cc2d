package apply

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/capstan-dev/capstan/agent/cloudconfig"
	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/internal/atomicfile"
	"github.com/capstan-dev/capstan/internal/regular"
)

const fstab = "/etc/fstab"

// fstabMark is the option that marks our lines in fstab. The kernel ignores options that start with x-.
const fstabMark = "x-capstan"

// Mounts adds mounts to fstab and mounts them.
func (h *Host) Mounts(ctx context.Context, mounts []cloudconfig.Mount) error {
	lines, err := regular.Read(fstab, 1<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(err, "reading fstab")
	}
	for _, m := range mounts {
		key, value := KeyMount, m.Point
		if m.Type == "swap" || m.Point == "none" {
			key, value = KeySwap, m.Source
		}
		if err := h.Notes.Note(key, value); err != nil {
			return err
		}
	}
	if err := atomicfile.Write(fstab, []byte(addMounts(string(lines), mounts)), 0o644); err != nil {
		return fault.New(err, "writing fstab")
	}
	for i, m := range mounts {
		if err := h.mount(ctx, m); err != nil {
			return fault.New(err, "mount %d of %d", i+1, len(mounts))
		}
	}
	return nil
}

func (h *Host) mount(ctx context.Context, m cloudconfig.Mount) error {
	if m.Type == "swap" || m.Point == "none" {
		if err := h.run(ctx, "swapon", m.Source); err != nil && !swapped(m.Source) {
			return fault.New(err, "switching the swap area on")
		}
		return nil
	}
	if err := h.Undo.MakeDir(m.Point); err != nil {
		return fault.New(err, "making the mount point")
	}
	point, err := filepath.EvalSymlinks(m.Point)
	if err != nil {
		return fault.New(err, "the mount point can't be found")
	}
	if mounted(point) {
		return nil
	}
	// The kernel lists the mount under this path.
	if err := h.Notes.Note(KeyMount, point); err != nil {
		return err
	}
	if err := h.run(ctx, "mount", "-t", m.Type, "-o", m.Options, m.Source, point); err != nil {
		return fault.New(err, "mounting it")
	}
	if !mounted(point) { // with the option nofail, mount does not report a missing device
		return fault.New(nil, "it is not mounted; does its device exist?")
	}
	return nil
}

func mounted(point string) bool {
	mounts, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(point))
	return err == nil && len(mounts) > 0
}

func swapped(source string) bool {
	data, err := os.ReadFile("/proc/swaps")
	if err != nil {
		return false
	}
	path, err := target(source)
	return err == nil && strings.Contains("\n"+string(data), "\n"+path+" ")
}

// addMounts returns fstab with our lines, which replace earlier ones.
func addMounts(text string, mounts []cloudconfig.Mount) string {
	text = RemoveMounts(text)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	escape := strings.NewReplacer(" ", `\040`, "\t", `\011`, `\`, `\134`)
	for _, m := range mounts {
		fields := []string{m.Source, m.Point, m.Type, m.Options + "," + fstabMark, m.Dump, m.Pass}
		for i, field := range fields {
			fields[i] = escape.Replace(field)
		}
		text += strings.Join(fields, "\t") + "\n"
	}
	return text
}

// RemoveMounts returns fstab without the lines that this package wrote.
func RemoveMounts(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) >= 4 && slices.Contains(strings.Split(fields[3], ","), fstabMark) {
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}
