package state

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller/image"
	"millrace/wire/records"
)

// session is what a leadership knows of a broker beside the image.
type session struct {
	contact  time.Time
	heard    bool  // from this broker, in this leadership
	offset   int64 // metadata offset it had reached at its last heartbeat
	shutdown int64 // metadata offset at which its controlled shutdown began
}

// knows says whether a broker is registered under this broker epoch.
func (d *Decider) knows(id int32, epoch int64) bool {
	b := d.working.Broker(id)
	return b != nil && b.Epoch == epoch
}

// look notices time passing. A controller that was not there itself (its process
// or machine stood still) heard no heartbeats for no fault of the brokers; that
// time does not count.
func (d *Decider) look(now time.Time) {
	if gap := now.Sub(d.looked); gap > d.settings.sessionTimeout/2 {
		for b := range d.working.Brokers() {
			if s := d.sessions[b.ID]; s != nil {
				s.contact = s.contact.Add(gap)
			}
		}
	}
	if now.After(d.looked) {
		d.looked = now
	}
}

// Expire fences the brokers that were not heard of for too long.
func (d *Decider) Expire(now time.Time) {
	d.look(now)
	var late []int32
	for b := range d.working.Brokers() {
		if s := d.sessions[b.ID]; !b.Fenced && s != nil && !now.Before(s.contact.Add(d.settings.sessionTimeout)) {
			late = append(late, b.ID)
		}
	}
	for _, id := range late {
		d.fence(id)
	}
}

// Deadline is when Expire wants to be asked next; zero for never. It is well
// before the first session ends, so that a standstill shows.
func (d *Decider) Deadline() time.Time {
	var first time.Time
	for b := range d.working.Brokers() {
		if s := d.sessions[b.ID]; !b.Fenced && s != nil {
			if end := s.contact.Add(d.settings.sessionTimeout); first.IsZero() || end.Before(first) {
				first = end
			}
		}
	}
	if soon := d.looked.Add(d.settings.sessionTimeout / 4); !first.IsZero() && soon.Before(first) {
		return soon
	}
	return first
}

func (d *Decider) registerBroker(now time.Time, req *kmsg.BrokerRegistrationRequest) Outcome {
	resp := req.ResponseKind().(*kmsg.BrokerRegistrationResponse)
	resp.BrokerEpoch = -1
	refuse := func(err *kerr.Error) Outcome {
		resp.ErrorCode = err.Code
		return Outcome{Response: resp}
	}
	if req.ClusterID != d.working.ClusterID() {
		return refuse(kerr.InconsistentClusterID)
	}
	old, s := d.working.Broker(req.BrokerID), d.sessions[req.BrokerID]
	same := old != nil && old.Incarnation == req.IncarnationID
	if old != nil && !same && !old.Fenced && !old.InControlledShutdown && s != nil && s.heard && now.Before(s.contact.Add(d.settings.sessionTimeout)) {
		return refuse(kerr.DuplicateBrokerRegistration)
	}
	if !d.goodDirectories(req) {
		return refuse(kerr.InvalidRegistration)
	}
	for _, f := range req.Features {
		if level := d.working.Feature(f.Name); level != 0 && (level < f.MinSupportedVersion || level > f.MaxSupportedVersion) {
			return refuse(kerr.UnsupportedVersion)
		}
	}
	if old != nil && !same && old.Epoch == d.offset {
		return Outcome{Again: true} // two broker epochs need two offsets
	}

	r := records.NewRegisterBrokerRecord()
	r.BrokerId, r.IncarnationId, r.Rack, r.LogDirs = req.BrokerID, req.IncarnationID, req.Rack, req.LogDirs
	for _, l := range req.Listeners {
		r.EndPoints = append(r.EndPoints, records.BrokerEndpoint{Name: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol})
	}
	for _, f := range req.Features {
		r.Features = append(r.Features, records.BrokerFeature{Name: f.Name, MinSupportedVersion: f.MinSupportedVersion, MaxSupportedVersion: f.MaxSupportedVersion})
	}
	if same {
		r.BrokerEpoch, r.Fenced, r.InControlledShutdown, r.CordonedLogDirs = old.Epoch, old.Fenced, old.InControlledShutdown, old.Cordoned
		d.write(r)
	} else {
		r.BrokerEpoch, r.Fenced = d.offset, true
		ended := d.everyPartition(req.BrokerID, d.renew)
		d.write(append(ended, r)...)
	}
	d.write(d.everyPartition(req.BrokerID, d.strand)...)
	if !same || s == nil {
		s = &session{offset: -1}
		d.sessions[req.BrokerID] = s
	}
	s.contact, s.heard = now, true
	resp.BrokerEpoch = r.BrokerEpoch
	return Outcome{Response: resp}
}

// goodDirectories checks the directory ids of a registration (KIP-858).
func (d *Decider) goodDirectories(req *kmsg.BrokerRegistrationRequest) bool {
	if len(req.LogDirs) == 0 {
		return false
	}
	for i, dir := range req.LogDirs {
		if slices.Contains(req.LogDirs[:i], dir) || image.ReservedDirectory(dir) {
			return false
		}
		for b := range d.working.Brokers() {
			if b.ID != req.BrokerID && slices.Contains(b.Directories, dir) {
				return false
			}
		}
	}
	return true
}

// standing is what a broker is, and what a heartbeat may make of it.
type standing int

const (
	fenced standing = iota
	unfenced
	shuttingDown // hands its leaderships over
	goNow        // has none any more
)

func (d *Decider) heartbeat(now time.Time, req *kmsg.BrokerHeartbeatRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
	if !d.knows(req.BrokerID, req.BrokerEpoch) {
		resp.ErrorCode, resp.IsFenced = kerr.StaleBrokerEpoch.Code, true
		return resp
	}
	b := d.working.Broker(req.BrokerID)
	s := d.sessions[b.ID]
	if s == nil {
		s = &session{offset: -1}
		d.sessions[b.ID] = s
	}
	s.contact, s.heard, s.offset = now, true, req.CurrentMetadataOffset

	if d.cordon(b, req.CordonedLogDirs) {
		b = d.working.Broker(b.ID)
	}

	if d.lose(b, req.OfflineLogDirs) {
		b = d.working.Broker(b.ID)
	}

	at := unfenced
	switch {
	case b.Fenced:
		at = fenced
	case b.InControlledShutdown:
		at = shuttingDown
	}
	next := d.next(at, s, b, req)
	if next != at {
		switch next {
		case unfenced:
			d.unfence(b)
		case shuttingDown:
			s.shutdown = d.offset
			d.write(&records.BrokerRegistrationChangeRecord{BrokerId: b.ID, BrokerEpoch: b.Epoch, InControlledShutdown: 1})
			d.write(d.everyPartition(b.ID, d.leave)...)
		default:
			if at != fenced {
				d.fence(b.ID)
			}
		}
	}
	resp.IsCaughtUp = req.CurrentMetadataOffset >= b.Epoch
	resp.IsFenced = next == fenced || next == goNow
	resp.ShouldShutdown = next == goNow
	return resp
}

func (d *Decider) next(at standing, s *session, b *image.Broker, req *kmsg.BrokerHeartbeatRequest) standing {
	switch at {
	case fenced:
		switch {
		case req.WantShutdown:
			return goNow
		case !req.WantFence && req.CurrentMetadataOffset >= b.Epoch:
			return unfenced // it has seen its own registration
		}
	case unfenced:
		switch {
		case req.WantFence && req.WantShutdown:
			return goNow
		case req.WantFence:
			return fenced
		case req.WantShutdown && d.leads(b.ID):
			return shuttingDown
		case req.WantShutdown:
			return goNow
		}
	case shuttingDown:
		if !d.leads(b.ID) && s.shutdown <= d.lowestOffset() {
			return goNow // all others have seen who leads now
		}
	}
	return at
}

// lowestOffset is the metadata offset that every active broker has reached.
func (d *Decider) lowestOffset() int64 {
	lowest := int64(math.MaxInt64)
	for b := range d.working.Brokers() {
		if s := d.sessions[b.ID]; b.Active() && s != nil {
			lowest = min(lowest, s.offset)
		}
	}
	return lowest
}

func (d *Decider) fence(id int32) {
	b := d.working.Broker(id)
	changes := d.everyPartition(id, d.leave)
	d.write(append(changes, &records.BrokerRegistrationChangeRecord{BrokerId: id, BrokerEpoch: b.Epoch, Fenced: 1})...)
}

func (d *Decider) unfence(b *image.Broker) {
	d.write(&records.BrokerRegistrationChangeRecord{BrokerId: b.ID, BrokerEpoch: b.Epoch, Fenced: -1})
	d.write(d.everyPartition(b.ID, d.arrive)...)
}

func (d *Decider) unregisterBroker(req *kmsg.UnregisterBrokerRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.UnregisterBrokerResponse)
	b := d.working.Broker(req.BrokerID)
	if b == nil {
		message := fmt.Sprintf("Broker ID %d is not currently registered", req.BrokerID)
		resp.ErrorCode, resp.ErrorMessage = kerr.BrokerIDNotRegistered.Code, &message
		return resp
	}
	changes := d.everyPartition(b.ID, d.leave)
	d.write(append(changes, &records.UnregisterBrokerRecord{BrokerId: b.ID, BrokerEpoch: b.Epoch})...)
	delete(d.sessions, b.ID)
	return resp
}
