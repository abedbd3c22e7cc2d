package server

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// HandleSettings makes a handler whose function gets the settings of the call (RC-21) as a T:
//
//	type settings struct {
//		Approvers []string      `setting:"approvers,required"`
//		Patience  time.Duration `setting:"patience" default:"30s"`
//	}
//
// T is a struct in which each field names a setting. Fields are strings, booleans, numbers, time.Duration, lists of
// strings (separated by commas), or have a method UnmarshalText. Settings that no field names are ignored: they belong
// to other handlers of the same extension. If a setting is missing or invalid, the call is answered with Failure; the
// message does not contain the value, because settings may be secrets (RX-28). [New] reports a T that can't work.
func HandleSettings[T, Req, Resp any](of hook.Hook[Req, Resp], name string,
	handle func(ctx context.Context, settings T, request *Req, response *Resp) error, options ...Option) Handler {
	plan, err := settingsPlan(reflect.TypeFor[T]())
	h := Handle(of, name, nil, options...)
	h.problem = errors.Join(h.problem, err)
	if handle == nil || err != nil {
		return h
	}
	h.call = func(ctx context.Context, request runtime.Object, response runtimehooksv1.ResponseObject) error {
		var settings T
		if carrier, ok := request.(runtimehooksv1.RequestObject); ok {
			if err := plan.fill(reflect.ValueOf(&settings).Elem(), carrier.GetSettings()); err != nil {
				return err
			}
		}
		return handle(ctx, settings, any(request).(*Req), any(response).(*Resp))
	}
	return h
}

// Settings reads settings into a T, for functions that do not use [HandleSettings]; see there.
func Settings[T any](values map[string]string) (T, error) {
	var settings T
	plan, err := settingsPlan(reflect.TypeFor[T]())
	if err != nil {
		return settings, err
	}
	return settings, plan.fill(reflect.ValueOf(&settings).Elem(), values)
}

// settingFields is a plan to fill a struct.
type settingFields []settingField

type settingField struct {
	index    int
	name     string
	required bool
	preset   *string
	set      func(reflect.Value, string) error
}

func settingsPlan(t reflect.Type) (settingFields, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("settings can't be a %s: they must be a struct", t)
	}
	var plan settingFields
	names := map[string]bool{}
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("setting"), ",")
		switch {
		case name == "":
			return nil, fmt.Errorf("field %s of settings %s has no tag setting: name its setting", field.Name, t)
		case !field.IsExported():
			return nil, fmt.Errorf("field %s of settings %s is not exported", field.Name, t)
		case names[name]:
			return nil, fmt.Errorf("two fields of settings %s are for setting %q", t, name)
		case options != "" && options != "required":
			return nil, fmt.Errorf("field %s of settings %s has the unknown option %q: the only option is required", field.Name,
				t, options)
		}
		names[name] = true
		set, err := setterOf(field.Type)
		if err != nil {
			return nil, fmt.Errorf("field %s of settings %s: %w", field.Name, t, err)
		}
		entry := settingField{index: i, name: name, required: options == "required", set: set}
		if preset, ok := field.Tag.Lookup("default"); ok {
			if entry.required {
				return nil, fmt.Errorf("field %s of settings %s is required and has a default: use one or the other",
					field.Name, t)
			}
			if err := set(reflect.New(field.Type).Elem(), preset); err != nil {
				return nil, fmt.Errorf("field %s of settings %s: its default %w", field.Name, t, err)
			}
			entry.preset = &preset
		}
		plan = append(plan, entry)
	}
	return plan, nil
}

// fill reads all settings. The error names everything that is wrong, in the order of the fields.
func (plan settingFields) fill(target reflect.Value, values map[string]string) error {
	var problems []string
	for _, field := range plan {
		text, given := values[field.name]
		switch {
		case given:
		case field.required:
			problems = append(problems, fmt.Sprintf("setting %q is missing: set it in spec.settings of the ExtensionConfig",
				field.name))
			continue
		case field.preset != nil:
			text = *field.preset
		default:
			continue
		}
		if err := field.set(target.Field(field.index), text); err != nil {
			problems = append(problems, fmt.Sprintf("setting %q %v", field.name, err))
		}
	}
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, ", "))
	}
	return nil
}

var durationType = reflect.TypeFor[time.Duration]()

// setterOf returns a function that sets a value of this type from a string. The function's errors are worded to follow
// the name of the setting, and do not quote the string.
func setterOf(t reflect.Type) (func(reflect.Value, string) error, error) {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return func(v reflect.Value, text string) error {
			if v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)) != nil {
				return errors.New("is not valid")
			}
			return nil
		}, nil
	}
	switch kind := t.Kind(); {
	case t == durationType:
		return func(v reflect.Value, text string) error {
			duration, err := time.ParseDuration(text)
			v.SetInt(int64(duration))
			return because(err, "must be a duration, such as 30s")
		}, nil
	case kind == reflect.String:
		return func(v reflect.Value, text string) error { v.SetString(text); return nil }, nil
	case kind == reflect.Bool:
		return func(v reflect.Value, text string) error {
			value, err := strconv.ParseBool(text)
			v.SetBool(value)
			return because(err, "must be true or false")
		}, nil
	case kind >= reflect.Int && kind <= reflect.Int64:
		return func(v reflect.Value, text string) error {
			value, err := strconv.ParseInt(text, 10, t.Bits())
			v.SetInt(value)
			return because(err, "must be a whole number of %d bits", t.Bits())
		}, nil
	case kind >= reflect.Uint && kind <= reflect.Uint64:
		return func(v reflect.Value, text string) error {
			value, err := strconv.ParseUint(text, 10, t.Bits())
			v.SetUint(value)
			return because(err, "must be a whole number of %d bits that is not negative", t.Bits())
		}, nil
	case kind == reflect.Float32 || kind == reflect.Float64:
		return func(v reflect.Value, text string) error {
			value, err := strconv.ParseFloat(text, t.Bits())
			v.SetFloat(value)
			return because(err, "must be a number")
		}, nil
	case kind == reflect.Slice && t.Elem().Kind() == reflect.String:
		return func(v reflect.Value, text string) error {
			list := reflect.MakeSlice(t, 0, 4)
			for item := range strings.SplitSeq(text, ",") {
				if item = strings.TrimSpace(item); item != "" {
					list = reflect.Append(list, reflect.ValueOf(item).Convert(t.Elem()))
				}
			}
			v.Set(list)
			return nil
		}, nil
	}
	return nil, fmt.Errorf("a setting can't be a %s", t)
}

func because(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format, args...)
}
