package mountinfo

import (
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	cases := map[string]struct {
		data string
		want []Mount
	}{
		"an ordinary mount":           {"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n", []Mount{{"/mnt2", "ext3", "/dev/root"}}},
		"without optional fields":     {"36 35 98:0 / / rw - ext4 /dev/sda rw\n", []Mount{{"/", "ext4", "/dev/sda"}}},
		"a name with spaces":          {"36 35 98:0 / /a\\040b\\134c rw - tmpfs x\\011y rw\n", []Mount{{"/a b\\c", "tmpfs", "x\ty"}}},
		"a line that is cut":          {"36 35 98:0 / /a rw\n", nil},
		"a backslash that is no code": {"36 35 98:0 / /a\\9 rw - tmpfs x rw\n", []Mount{{"/a\\9", "tmpfs", "x"}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := parse(c.data); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestBelow(t *testing.T) {
	all, err := Below("/")
	if err != nil || len(all) == 0 {
		t.Fatalf("got %v, %v", all, err)
	}
	if some, err := Below("/pro"); err != nil || len(some) != 0 {
		t.Errorf("/pro is taken for /proc: %v, %v", some, err)
	}
	if some, err := Below("/proc"); err != nil || len(some) == 0 {
		t.Errorf("got %v, %v", some, err)
	}
}
