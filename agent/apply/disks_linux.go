package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/agent/cloudconfig"
	"github.com/capstan-dev/capstan/agent/command"
	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/internal/backoff"
)

// Disks partitions disks. It does not change a disk that has content, unless the data sets "overwrite".
func (h *Host) Disks(ctx context.Context, disks []cloudconfig.Disk) error {
	if h.Local && len(disks) > 0 {
		return fault.New(nil, "a local host has no disks of its own; take diskSetup out of the machine's configuration")
	}
	for i, d := range disks {
		if err := h.disk(ctx, d); err != nil {
			return fault.New(err, "disk %d of %d", i+1, len(disks))
		}
	}
	return nil
}

func (h *Host) disk(ctx context.Context, d cloudconfig.Disk) error {
	if len(d.Parts) == 0 {
		return nil
	}
	found, err := probe(ctx, d.Device)
	if err != nil {
		return err
	}
	if found.any() && !d.Overwrite {
		h.Log.Printf("%s stays as it is: it is not empty", d.Device)
		return nil
	}
	size, err := deviceSize(d.Device)
	if err != nil {
		return fault.New(err, "finding out its size")
	}
	id := tableID(d.Table)
	if err := h.noteDevice(KeyDisk, d.Device, id); err != nil {
		return err
	}
	plan := partitions(d, size, id)
	h.Log.Printf("partitioning %s:\n%s", d.Device, plan)
	split := command.Command{
		Args: []string{"sfdisk", "--wipe", "always", "--wipe-partitions", "always", d.Device}, Stdin: plan, Output: h.Log,
	}
	if err := split.Run(ctx); err != nil {
		return fault.New(err, "partitioning it")
	}
	if err := h.noteContent(ctx, d.Device); err != nil {
		return err
	}
	return waitForDevice(ctx, partition(d.Device, len(d.Parts)))
}

// partitions returns the script for sfdisk. id identifies the partition table.
func partitions(d cloudconfig.Disk, size int64, id string) string {
	label := "dos"
	if d.Table == "gpt" {
		label = "gpt"
	} else {
		id = "0x" + id
	}
	var b strings.Builder
	b.WriteString("label: " + label + "\nlabel-id: " + id + "\n")
	sum := 0
	for i, p := range d.Parts {
		sum += p.Percent
		// If the partitions add up to the whole disk, the last one takes the rest: percentages are not exact.
		if i < len(d.Parts)-1 || sum < 100 {
			fmt.Fprintf(&b, "size=%dMiB, ", max(1, size*int64(p.Percent)/100>>20))
		}
		b.WriteString("type=" + partitionType(d.Table, p.Type) + "\n")
	}
	return b.String()
}

// partitionType returns a type in sfdisk's notation. For GPT, it translates the usual MBR codes to GUIDs.
func partitionType(table, code string) string {
	code = strings.ToLower(code)
	if table != "gpt" {
		if code == "" {
			return "83"
		}
		return code
	}
	switch code {
	case "", "83":
		return "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
	case "82":
		return "0657FD6D-A4AB-43C4-84E5-0933C84B4F4F"
	case "fd":
		return "A19D880F-05FC-4D3B-A006-743F0F84911E"
	case "8e":
		return "E6D6D379-F507-44C2-A23C-238F2A3DF928"
	case "7", "07", "c", "0c":
		return "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"
	}
	return strings.ToUpper(code)
}

// Filesystems makes file systems.
func (h *Host) Filesystems(ctx context.Context, all []cloudconfig.Filesystem) error {
	if h.Local && len(all) > 0 {
		return fault.New(nil, "a local host has no disks of its own; take diskSetup out of the machine's configuration")
	}
	for i, f := range all {
		if err := h.filesystem(ctx, f); err != nil {
			return fault.New(err, "file system %d of %d", i+1, len(all))
		}
	}
	return nil
}

func (h *Host) filesystem(ctx context.Context, f cloudconfig.Filesystem) error {
	device, found, err := choose(ctx, f)
	if err != nil {
		return err
	}
	needed, err := decide(f, found)
	if err != nil {
		return err
	}
	if !needed {
		h.Log.Printf("%s has the file system already", device)
		return nil
	}
	id, options := filesystemID(f)
	if err := h.noteDevice(KeyFilesystem, device, id); err != nil {
		return err
	}
	f.Options = slices.Concat(options, f.Options)
	if err := h.run(ctx, mkfs(f, device)...); err != nil {
		return fault.New(err, "making it")
	}
	return h.noteContent(ctx, device)
}

// decide reports whether to make the file system on a device, given what is on it.
func decide(f cloudconfig.Filesystem, found content) (bool, error) {
	switch {
	case found.kind == "" && found.table == "":
		return true, nil
	case f.Overwrite:
		return true, nil
	case found.kind == f.Type && (f.Label == "" || f.Label == found.label):
		return false, nil
	case f.Replace != "" && found.kind == f.Replace:
		return true, nil
	}
	return false, fault.New(nil, "the device has other contents; wipe it, or set overwrite")
}

// choose returns the device for the file system, and what is on it. "auto" selects the partition that already has the
// file system, else the first empty partition, else the first partition.
func choose(ctx context.Context, f cloudconfig.Filesystem) (string, content, error) {
	candidates := []string{f.Device}
	switch number, err := strconv.Atoi(f.Partition); {
	case err == nil && number > 0:
		candidates = []string{partition(f.Device, number)}
	case f.Partition == "auto":
		if parts := partitionsOf(f.Device); len(parts) > 0 {
			candidates = parts
		}
	}
	best := -1
	var contents []content
	for i, device := range candidates {
		found, err := probe(ctx, device)
		if err != nil {
			return "", content{}, err
		}
		contents = append(contents, found)
		if found.kind == f.Type && f.Label != "" && found.label == f.Label {
			best = i
			break
		}
		if !found.any() && best < 0 {
			best = i
		}
	}
	best = max(best, 0)
	return candidates[best], contents[best], nil
}

// mkfs returns the command that makes a file system. The command never asks whether to overwrite data: the function
// decide has already checked that.
func mkfs(f cloudconfig.Filesystem, device string) []string {
	program, label := "mkfs."+f.Type, "-L"
	var args []string
	switch f.Type {
	case "swap":
		program = "mkswap"
	case "ext2", "ext3", "ext4":
		args = append(args, "-F")
	case "xfs", "btrfs":
		args = append(args, "-f")
	case "vfat", "fat":
		label = "-n"
	}
	if f.Label != "" {
		args = append(args, label, f.Label)
	}
	args = append(args, f.Options...)
	return append(append([]string{program}, args...), device)
}

// content describes what a device holds. The field id identifies the file system or, if there is none, the partition
// table.
type content struct{ kind, label, table, id string }

func (c content) any() bool { return c != content{} }

// probe finds out what is on a device.
func probe(ctx context.Context, device string) (content, error) {
	if _, err := os.Stat(device); err != nil {
		return content{}, fault.New(err, "there is no such device")
	}
	var out strings.Builder
	err := command.Command{Args: []string{"blkid", "-p", "-o", "export", device}, Output: &out}.Run(ctx)
	var status *command.StatusError
	if errors.As(err, &status) && status.Status == 2 { // blkid found nothing
		return content{}, nil
	}
	if err != nil {
		return content{}, fault.New(err, "finding out what is on the device")
	}
	return parseProbe(out.String()), nil
}

// parseProbe reads the output of "blkid -p -o export".
func parseProbe(text string) content {
	var c content
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "TYPE":
			c.kind = value
		case "LABEL":
			c.label = value
		case "PTTYPE":
			c.table = value
		case "UUID":
			c.id = value
		case "PTUUID":
			if c.id == "" {
				c.id = value
			}
		}
	}
	return c
}

// partition returns the path of a disk's partition. If the disk's name ends in a digit, a p separates the two.
func partition(disk string, number int) string {
	if resolved, err := filepath.EvalSymlinks(disk); err == nil {
		disk = resolved // links such as /dev/disk/by-id/x have other names for partitions
	}
	separator := ""
	if last := disk[len(disk)-1]; last >= '0' && last <= '9' {
		separator = "p"
	}
	return disk + separator + strconv.Itoa(number)
}

// partitionsOf returns the partitions of a disk that the kernel knows, in order.
func partitionsOf(disk string) []string {
	resolved, err := filepath.EvalSymlinks(disk)
	if err != nil {
		return nil
	}
	found, _ := filepath.Glob(filepath.Join("/sys/class/block", filepath.Base(resolved), "*", "partition"))
	var numbers []int
	for _, path := range found {
		data, _ := os.ReadFile(path)
		if n, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	var devices []string
	for _, n := range numbers {
		devices = append(devices, partition(resolved, n))
	}
	return devices
}

func deviceSize(device string) (int64, error) {
	f, err := os.Open(device)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.Seek(0, io.SeekEnd)
}

// waitForDevice waits until the kernel and udev have created a device.
func waitForDevice(ctx context.Context, device string) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	pauses := backoff.Backoff{First: 20 * time.Millisecond, Max: time.Second}
	for {
		if _, err := os.Stat(device); err == nil {
			return nil
		}
		if pauses.Wait(ctx) != nil {
			return fault.New(nil, "its partitions did not appear within 15 seconds")
		}
	}
}
