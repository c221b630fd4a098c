package state

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller/image"
	"millrace/controller/place"
	"millrace/wire/records"
)

// deleteTopics sorts a request's entries into those named, those given by id and
// those that are neither or both, as Kafka does, because which of several errors
// an entry shows depends on that order.
func (d *Decider) deleteTopics(req *kmsg.DeleteTopicsRequest, c *chance) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	answer := func(name *string, id [16]byte, f *failure) {
		t := kmsg.NewDeleteTopicsResponseTopic()
		t.Topic, t.TopicID = name, id
		if f != nil {
			t.ErrorCode, t.ErrorMessage = f.code, f.message
		}
		resp.Topics = append(resp.Topics, t)
	}
	asked := req.Topics
	if req.Version < 6 {
		asked = nil
		for i := range req.TopicNames {
			asked = append(asked, kmsg.DeleteTopicsRequestTopic{Topic: &req.TopicNames[i]})
		}
	}
	var none [16]byte
	if !d.settings.deleteTopics {
		f := plain(kerr.TopicDeletionDisabled)
		if req.Version < 3 {
			f = fail(kerr.InvalidRequest, "Topic deletion is disabled.")
		}
		for _, t := range asked {
			answer(t.Topic, t.TopicID, f)
		}
		return resp
	}

	names, ids := map[string]int{}, map[[16]byte]int{}
	for _, t := range asked {
		switch {
		case t.Topic == nil && t.TopicID == none:
			answer(nil, none, fail(kerr.InvalidRequest, "Neither topic name nor id were specified."))
		case t.Topic != nil && t.TopicID != none:
			answer(t.Topic, t.TopicID, fail(kerr.InvalidRequest, "You may not specify both topic name and topic id."))
		case t.Topic != nil:
			names[*t.Topic]++
		default:
			ids[t.TopicID]++
		}
	}
	const answered = -1
	for _, t := range asked {
		if t.Topic != nil && t.TopicID == none && names[*t.Topic] > 1 {
			answer(t.Topic, none, fail(kerr.InvalidRequest, "Duplicate topic name."))
			names[*t.Topic] = answered
		}
		if t.Topic == nil && t.TopicID != none && ids[t.TopicID] > 1 {
			answer(nil, t.TopicID, fail(kerr.InvalidRequest, "Duplicate topic id."))
			ids[t.TopicID] = answered
		}
	}
	// doomed keeps the order of the request.
	var doomed []*image.Topic
	for _, t := range asked {
		if t.Topic != nil || ids[t.TopicID] != 1 {
			continue
		}
		if found := d.working.TopicByID(t.TopicID); found != nil {
			doomed = append(doomed, found)
		} else {
			answer(nil, t.TopicID, told(kerr.UnknownTopicID))
		}
	}
	for _, t := range asked {
		if t.Topic == nil || t.TopicID != none || names[*t.Topic] != 1 {
			continue
		}
		found := d.working.TopicByName(*t.Topic)
		switch {
		case found == nil:
			answer(t.Topic, none, told(kerr.UnknownTopicOrPartition))
		case ids[found.ID] != 0:
			answer(t.Topic, found.ID, fail(kerr.InvalidRequest, "The provided topic name maps to an ID that was already supplied."))
			ids[found.ID] = answered
		default:
			doomed = append(doomed, found)
		}
	}
	for _, t := range doomed {
		if ids[t.ID] == answered {
			continue
		}
		d.write(&records.RemoveTopicRecord{TopicId: t.ID})
		d.forgetName(t.Name)
		name := t.Name
		answer(&name, t.ID, nil)
	}
	// So that positions do not tell absent topics from forbidden ones.
	place.NewRandom(c.number()).Shuffle(len(resp.Topics), func(i, j int) {
		resp.Topics[i], resp.Topics[j] = resp.Topics[j], resp.Topics[i]
	})
	return resp
}
