package cloudconfig

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// disks reads disk_setup, a mapping of devices.
func (r *reader) disks(n *yaml.Node) []Disk {
	var disks []Disk
	if n.Kind != yaml.MappingNode {
		r.fail(n, "disk_setup must be a mapping of devices")
		return nil
	}
	if !r.spend(n, entryCost*len(n.Content)) {
		return nil
	}
	for i := 0; i+1 < len(n.Content) && r.err == nil; i += 2 {
		d := Disk{Device: r.device(n.Content[i], "a device of disk_setup"), Table: "mbr"}
		layout := false
		r.fields(n.Content[i+1], "a device of disk_setup", map[string]func(*yaml.Node){
			"table_type": func(n *yaml.Node) {
				d.Table = strings.ToLower(r.text(n, "table_type"))
				if d.Table != "mbr" && d.Table != "gpt" {
					r.fail(n, "table_type must be mbr or gpt")
				}
			},
			"overwrite": func(n *yaml.Node) { d.Overwrite = r.flag(n, "overwrite") },
			"layout": func(n *yaml.Node) {
				layout = true
				d.Parts = r.layout(n)
			},
		})
		if !layout { // the provider writes "<nil>" if the layout is not set
			d.Parts = []Part{{Percent: 100}}
		}
		disks = append(disks, d)
	}
	return disks
}

// layout reads the partitions of a disk: true for one partition, false for none, or a list of percentages with optional
// types.
func (r *reader) layout(n *yaml.Node) []Part {
	if n.Kind != yaml.SequenceNode {
		if r.flag(n, "layout") {
			return []Part{{Percent: 100}}
		}
		return nil
	}
	var parts []Part
	sum := 0
	for _, entry := range r.list(n, "layout") {
		values := []string{}
		if entry.Kind == yaml.SequenceNode {
			values = r.texts(entry, "an entry of layout")
		} else {
			values = append(values, r.text(entry, "an entry of layout"))
		}
		if len(values) < 1 || len(values) > 2 {
			r.fail(entry, "an entry of layout must be a percentage, or a list of a percentage and a type")
			continue
		}
		percent, err := strconv.Atoi(values[0])
		if err != nil || percent < 1 || percent > 100 {
			r.fail(entry, "a percentage in layout must be between 1 and 100")
			continue
		}
		part := Part{Percent: percent}
		if len(values) == 2 {
			if part.Type = values[1]; !partType.MatchString(part.Type) {
				r.fail(entry, "a partition type in layout must be a hexadecimal code or a GUID")
			}
		}
		parts = append(parts, part)
		sum += percent
	}
	if sum > 100 {
		r.fail(n, "the percentages of layout add up to more than 100")
	}
	return parts
}

// partType matches partition types, which become part of a command.
var partType = regexp.MustCompile(`^([0-9A-Fa-f]{1,4}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$`)

// device reads the name of a block device.
func (r *reader) device(n *yaml.Node, what string) string {
	device := r.text(n, what)
	if device != "" && !strings.Contains(device, "/") {
		device = "/dev/" + device
	}
	if !filepath.IsAbs(device) {
		r.fail(n, "%s must be the path of a device", what)
	}
	return device
}

// word matches file system types, which become part of a program's name.
var word = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,31}$`)

func (r *reader) filesystem(n *yaml.Node) Filesystem {
	f := Filesystem{}
	r.fields(n, "an entry of fs_setup", map[string]func(*yaml.Node){
		"label":      func(n *yaml.Node) { f.Label = r.text(n, "label") },
		"filesystem": func(n *yaml.Node) { f.Type = r.text(n, "filesystem") },
		"device":     func(n *yaml.Node) { f.Device = r.device(n, "device") },
		"partition":  func(n *yaml.Node) { f.Partition = strings.ToLower(r.text(n, "partition")) },
		"overwrite":  func(n *yaml.Node) { f.Overwrite = r.flag(n, "overwrite") },
		"replace_fs": func(n *yaml.Node) { f.Replace = r.text(n, "replace_fs") },
		"extra_opts": func(n *yaml.Node) { f.Options = r.words(n, "extra_opts", " ") },
	})
	if strings.EqualFold(f.Label, "none") {
		f.Label = ""
	}
	if f.Device == "" || !word.MatchString(f.Type) {
		r.fail(n, "an entry of fs_setup needs a device and a filesystem")
	}
	switch _, err := strconv.ParseUint(f.Partition, 10, 8); {
	case f.Partition == "none":
		f.Partition = ""
	case f.Partition == "any" || f.Partition == "auto|any" || f.Partition == "auto":
		f.Partition = "auto"
	case f.Partition != "" && err != nil:
		r.fail(n, "partition must be auto, any, none or a number")
	}
	return f
}

func (r *reader) mount(n *yaml.Node) Mount {
	m := Mount{Type: "auto", Options: "defaults,nofail", Dump: "0", Pass: "2"}
	for i, value := range r.texts(n, "an entry of mounts") {
		field := [...]*string{&m.Source, &m.Point, &m.Type, &m.Options, &m.Dump, &m.Pass}
		switch {
		case i >= len(field):
			r.fail(n, "an entry of mounts has more than %d values", len(field))
			return m
		case strings.ContainsAny(value, "\n\r\x00"):
			r.fail(n, "an entry of mounts has a value of more than one line")
		case value != "":
			*field[i] = value
		}
	}
	if m.Source == "" || !filepath.IsAbs(m.Point) && m.Point != "none" {
		r.fail(n, "an entry of mounts needs a device and the absolute path of a mount point")
	}
	if m.Point != "none" && m.Point != "" {
		m.Point = filepath.Clean(m.Point)
	}
	if bareDevice.MatchString(m.Source) {
		m.Source = "/dev/" + m.Source
	}
	return m
}

// bareDevice matches device names that are given without a directory.
var bareDevice = regexp.MustCompile(`^(sd[a-z]+|vd[a-z]+|xvd[a-z]+|hd[a-z]+|nvme\d+n\d+p?|mmcblk\d+p?)\d*$`)

// userName matches what useradd accepts; the name becomes part of files that separate fields with colons.
var userName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,30}\$?$`)

func (r *reader) user(n *yaml.Node) User {
	u := User{LockPassword: true}
	oneLine := func(target *string, what string) func(*yaml.Node) {
		return func(n *yaml.Node) {
			if *target = r.text(n, what); strings.ContainsAny(*target, "\n\r:") {
				r.fail(n, "%s has a colon or a line break", what)
			}
		}
	}
	r.fields(n, "an entry of users", map[string]func(*yaml.Node){
		"name":          oneLine(&u.Name, "name"),
		"gecos":         oneLine(&u.Gecos, "gecos"),
		"homedir":       oneLine(&u.HomeDir, "homedir"),
		"shell":         oneLine(&u.Shell, "shell"),
		"primary_group": oneLine(&u.PrimaryGroup, "primary_group"),
		"passwd":        oneLine(&u.HashedPassword, "passwd"),
		"groups":        func(n *yaml.Node) { u.Groups = r.words(n, "groups", ", ") },
		"lock_passwd":   func(n *yaml.Node) { u.LockPassword = r.flag(n, "lock_passwd") },
		"inactive":      func(n *yaml.Node) { u.Inactive = r.days(n) },
		"sudo": func(n *yaml.Node) {
			if n.Kind == yaml.SequenceNode {
				u.Sudo = r.texts(n, "sudo")
			} else if rule := r.text(n, "sudo"); !strings.EqualFold(rule, "false") && rule != "" {
				u.Sudo = []string{rule}
			}
		},
		"ssh_authorized_keys": func(n *yaml.Node) { u.SSHKeys = r.texts(n, "ssh_authorized_keys") },
	})
	if !userName.MatchString(u.Name) {
		r.fail(n, "an entry of users needs a valid name")
	}
	for _, group := range append([]string{u.PrimaryGroup}, u.Groups...) {
		if group != "" && !userName.MatchString(group) {
			r.fail(n, "an entry of users has an invalid group")
		}
	}
	for _, line := range append(u.Sudo, u.SSHKeys...) {
		if strings.ContainsAny(strings.TrimSpace(line), "\n\r") {
			r.fail(n, "an entry of users has a rule or key of more than one line")
		}
	}
	return u
}

// days reads the key "inactive", which is a number of days. The kubeadm bootstrap provider writes true or false; true
// disables the account as soon as the password expires.
func (r *reader) days(n *yaml.Node) string {
	value := r.text(n, "inactive")
	if _, err := strconv.ParseUint(value, 10, 16); err == nil {
		return value
	}
	if r.flag(n, "inactive") {
		return "0"
	}
	return ""
}

func (r *reader) ntp(n *yaml.Node) *NTP {
	ntp := &NTP{Enabled: true}
	r.fields(n, "ntp", map[string]func(*yaml.Node){
		"enabled": func(n *yaml.Node) { ntp.Enabled = r.flag(n, "enabled") },
		"servers": func(n *yaml.Node) { ntp.Servers = r.texts(n, "servers") },
		"pools":   func(n *yaml.Node) { ntp.Pools = r.texts(n, "pools") },
	})
	for _, server := range append(ntp.Servers, ntp.Pools...) {
		if !timeServer.MatchString(server) {
			r.fail(n, "a time server must be a name or an address")
		}
	}
	return ntp
}

var timeServer = regexp.MustCompile(`^[A-Za-z0-9.:_-]{1,253}$`)
