"""The grammar of the synthetic dialogues: 173 patterns of one turn and its possible responses, in Chinese.

A line of `TURNS` is `what is said > a response | another one`, a line that starts with `|` adds responses to the line
before. `{person}` is a filler of that type (see dialogue_fillers.py), `{person2}` another one of the same type. A slot
that only a response has is an entity that cannot be copied.
"""

import re
from typing import NamedTuple

TURNS = """
你好，我叫{person}。 > 你好，{person}！ | {person}你好，很高兴认识你。
大家好，我是新来的{person}。 > 欢迎{person}！ | 欢迎欢迎，以后多关照。
我叫{person}，你叫什么？ > 我叫{person2}。
大家都叫我{nick}。 > 那我也叫你{nick}吧。
你可以叫我{nick}。 > 好的，{nick}。 | {nick}，真好听的名字。
请问{person}在吗？ > {person}不在，你是哪位？ | 我就是{person}。 | 请稍等一下。
你认识{person}吗？ > 不认识，{person}是谁？ | 认识，{person}是我同学。
{person}是你什么人？ > {person}是我的老朋友。
你是不是{person}？ > 是的，我就是{person}。 | 你认错人了。
{person}今天怎么没来？ > {person}生病了。 | {person}请假了。 | 我也不知道。
我是{nick}，还记得我吗？ > 当然记得，{nick}！
谁是{person}？ > 我是{person}，有事吗？
{person}和{person2}谁高？ > {person}比{person2}高一点。
{person}和{person2}在一起了。 > 祝{person}和{person2}幸福！ | 真的吗？我怎么不知道。
昨天我遇见{person}了。 > 好久没见{person}了，最近怎么样？
{person}说以前见过你。 > 可是我没见过{person}啊。
这是我妹妹{nick}。 > {nick}你好，真可爱。
{person}的生日是哪天？ > {person}的生日是{date}。
班长我选{person}。 > 我也选{person}。 | 那我选{person2}。
{person}你在吗？ > 在，什么事？
{person}，生日快乐！ > 谢谢你还记得！
{nick}，晚安。 > 晚安，做个好梦。
早上好，{nick}。 > 早上好！
{person}加油！ > 谢谢你的鼓励。
帮我转告{person}，{time}开会。 > 好，我告诉{person}{time}开会。
{nick}找你有事。 > {nick}找我什么事？ | 知道了，我马上过去。
我喜欢上{nick}了。 > 那就去告诉{nick}吧。 | 快去表白啊！
{nick}怎么不理我？ > {nick}可能在忙。
{person}结婚了吗？ > {person}去年就结婚了。 | 还没有呢。
{nick}，你的电话是多少？ > 我的电话是{code}。
我来自{place}。 > {place}是个好地方。 | 我也是{place}人！
我是{place}人，你是哪里人？ > 我是{place2}人。
我想去{place}玩。 > {place}很好玩，去吧。 | 带上我一起去！
{place}有什么好吃的？ > {place}的{food}很有名。
从{place}到{place2}怎么走？ > 在{place}坐火车就能到{place2}。
你去过{place}吗？ > 没去过，{place}远吗？ | 去过两次。
{place}现在冷吗？ > {place}这几天挺冷的。
我明天去{place}出差。 > 祝你在{place}一切顺利。 | 一路平安！
我刚从{place}回来。 > {place}好玩吗？
{place}下雨了吗？ > 下了，{place}下了一整天。 | 没有，是晴天。
去{place}的车几点开？ > 去{place}的车{time}开。
我在{place}迷路了。 > 别急，你在{place}哪里？
你家在{place}还是{place2}？ > 我家在{place2}。
想搬到{place}住。 > {place}的房子贵吗？
听说{place}地震了。 > 希望{place}的人都平安。 | 太可怕了。
{place}和{place2}哪个好玩？ > 我更喜欢{place}。 | 两个都不错。
有{place}的朋友吗？ > 我就在{place}。
我男朋友在{place}当兵。 > {place}离你远吗？
周末去{place}爬山吧。 > 好啊，{place}见。 | 这周末没空。
{place}堵车吗？ > {place}天天堵车。
我要离开{place}了。 > {place}永远欢迎你。 | 一路顺风。
{place}的冬天下雪吗？ > {place}从来不下雪。
我们在{place}见面吧，{time}。 > 好，{time}在{place}等你。
我想吃{food}。 > 我也想吃{food}。 | 走，我请客。
你喜欢吃{food}吗？ > 喜欢，{food}最好吃了。 | 不太喜欢。
{food}怎么做？ > {food}很好做，我教你。
今晚我做了{food}。 > 我也要吃{food}！
{food}和{food2}选哪个？ > 选{food}吧。 | 两个都要！
晚饭吃{food}还是{food2}？ > {food2}吧，{food}太油了。
这家的{food}多少钱？ > {food}{price}一份。
中午吃了{food}，好撑。 > {food}吃多了会胖的。
老板，来一份{food}。 > 好的，{food}一份，马上来。
老板，来一杯{drink}。 > {drink}一杯，请稍等。
一杯{drink}多少钱？ > {price}一杯。
你喝{drink}吗？ > 不喝，我要{drink2}。
我最讨厌{food}。 > {food}那么好吃，你居然讨厌。 | 每个人口味不一样。
第一次喝{drink}，真好喝！ > 哪里有{drink}卖？
减肥能吃{food}吗？ > 减肥别吃{food}。 | 少吃一点没关系。
{food}放了三天还能吃吗？ > 别吃了，快扔掉吧。
哪家店的{food}好吃？ > {shop}的{food}不错。
我请你喝{drink}。 > 谢谢，我最爱喝{drink}了。 | 不用这么客气。
妈妈给我寄了{food}。 > 真羡慕，分我一点。
{shop}好吃吗？ > {shop}的味道还可以。 | 我没去过。
{shop}几点关门？ > {shop}{time}关门。
中午在{shop}吃饭吧。 > 好，{shop}见。
{drink}卖完了。 > 那就换成{drink2}吧。 | 真可惜。
你听过《{song}》吗？ > 听过，《{song}》很好听。 | 没听过，谁唱的？
求《{song}》的歌词。 > 《{song}》的歌词发给你了。
我在单曲循环《{song}》。 > 《{song}》听多少遍都不腻。
{person}的新歌叫《{song}》。 > 《{song}》是{person}自己写的吗？
推荐一首{person}的歌。 > 去听《{song}》吧。
《{song}》是谁唱的？ > 《{song}》是{person}唱的。
唱一首《{song}》吧。 > 我不会唱《{song}》。 | 我五音不全，算了吧。
你看过《{film}》吗？ > 《{film}》我看了三遍。 | 还没看，好看吗？
《{film}》什么时候上映？ > 《{film}》{date}上映。
《{film}》的结局是什么？ > 《{film}》的结局要自己看。 | 不能剧透。
今晚去看《{film}》吗？ > 好，《{film}》几点开始？
《{film}》太无聊了。 > 我觉得《{film}》还行啊。 | 同意，我都睡着了。
《{film}》和《{film2}》哪部好看？ > 《{film2}》更好看。
最近在读《{book}》。 > 《{book}》写得怎么样？
谁有《{book}》的电子版？ > 我有《{book}》，发你邮箱。 | 我也想要。
《{book}》的作者是谁？ > 《{book}》是{person}写的。
《{book}》和《{book2}》先看哪本？ > 先看《{book}》，再看《{book2}》。
有人玩《{game}》吗？ > 我玩《{game}》，一起吧。 | 早就不玩了。
《{game}》怎么下载？ > 搜《{game}》就能下载。
《{game}》第{count}关怎么过？ > 第{count}关我也过不去。
《{game}》我练到{count}级了。 > {count}级，好厉害！
《{game}》和《{game2}》哪个好玩？ > 我觉得《{game2}》好玩。
《{game}》又更新了。 > 《{game}》更新了什么？
《{game}》为什么登不上去？ > 《{game}》在维护。 | 重启试试。
带我玩《{game}》吧，我叫{nick}。 > {nick}，加我好友。
我的生日是{date}。 > {date}，我记住了。 | 到时候给你送礼物。
{date}你有空吗？ > {date}有事，改天吧。 | 有空，怎么了？
{date}是星期几？ > 自己看日历。
考试是{date}吗？ > 对，{date}考试。
我们{date}结婚。 > 恭喜，{date}我一定到！ | 恭喜恭喜！
{time}见面行吗？ > 行，{time}见。 | 能不能晚一点？
明天{time}叫我起床。 > 好，{time}叫你。
火车{time}开。 > {time}开的话，现在就出发吧。
{date}{time}开会。 > 知道了，{date}{time}。
我每天{time}下班。 > {time}下班真不错。 | 我也是。
我今年{age}岁。 > {age}岁，正是好年纪。
猜我多大？{age}岁！ > {age}岁？看不出来。
{thing}多少钱？ > {thing}{price}。
出{thing}，{price}。 > {price}太贵了，便宜点。
{price}卖不卖？ > {price}太少了。 | 卖，成交。
便宜点，{price}行不行？ > {price}就{price}吧。
我借你{price}。 > 谢谢，{price}下个月还你。
我花{price}买了{thing}。 > {thing}才{price}，值了。
我的号码是{code}。 > {code}，记住了。 | 好的，已经加你了。
加我好友，{code}。 > {code}加了，通过一下。
{code}是谁的号码？ > {code}是{nick}的。
快递单号是{code}。 > {code}显示已经发货了。
请重复一遍：{code}。 > {code}。
验证码是{code}吗？ > 验证码不要告诉别人。
坐{count}路车能到{place}吗？ > 能，{count}路直接到{place}。
我考了{score}分。 > {score}分已经很好了。 | 下次加油。
我的座位是{count}号吗？ > 对，{count}号，请坐。
我家猫叫{pet}。 > {pet}几岁了？ | {pet}真可爱。 | 我家也有一只猫。
我的狗{pet}不吃东西了。 > {pet}是不是生病了？
{pet}丢了，怎么办？ > 别急，{pet}会回来的。 | 快出去找找。
我想养一只{animal}。 > {animal}不好养。 | 你有时间照顾吗？
我怕{animal}。 > {animal}有什么可怕的？
{animal}吃什么？ > 我也不知道{animal}吃什么。
{animal}和{animal2}谁厉害？ > 当然是{animal}厉害。
我养了一只{animal}，叫什么好？ > 就叫{pet}吧。
昨晚梦见{animal}了。 > 梦见{animal}是好事。 | 你想多了。
动物园里有{animal}吗？ > 有，{animal}在东门那边。
{pet}生小狗了。 > {pet}当妈妈了，恭喜！ | 送我一只吧。
{pet}又拆家了。 > {pet}太调皮了。
我家{animal}叫{pet}。 > {pet}这名字很适合{animal}。
我考上{school}了！ > 恭喜你考上{school}！ | 恭喜恭喜，请客！
{school}怎么样？ > {school}挺好的。 | 一般般。
有{school}的同学吗？ > 我是{school}的，你几年级？
{school}和{school2}选哪个？ > 选{school}，{school2}太远了。
{school}的食堂好吃吗？ > {school}的食堂很难吃。
我的{subject}没及格。 > {subject}补考加油。 | 别难过。
{subject}难学吗？ > {subject}不难，多练就行。
明天考{subject}。 > 祝你{subject}考满分！ | 赶紧复习吧。
谁有{subject}的笔记？ > 我有{subject}的笔记。
{subject}老师是谁？ > 教{subject}的是{person}老师。
{subject}作业写完了吗？ > {subject}作业还没写。
我是一名{job}。 > 做{job}累不累？
我想当{job}。 > 当{job}要努力啊。 | 加油，你可以的！
你们还招{job}吗？ > 招，{job}工资面议。
我爸爸是{job}，你爸爸呢？ > 我爸爸是{job2}。
{person}老师布置作业了吗？ > {person}老师说今天没作业。
我在{school}读书，{place}人。 > {place}离{school}远吗？
我喜欢{hobby}。 > 我也喜欢{hobby}。 | {hobby}有什么意思？
周末一起{hobby}吧。 > 好啊，好久没{hobby}了。 | 不行，周末要加班。
你会{hobby}吗？ > 不会，{hobby}难吗？
除了{hobby}你还喜欢什么？ > 我还喜欢{hobby2}。
你喜欢{hobby}还是{hobby2}？ > 比起{hobby}，我更喜欢{hobby2}。
我的{thing}不见了。 > {thing}是不是落在家里了？ | 再找找。
谁捡到我的{thing}了？ > {thing}在我这里，来拿吧。
网上能买到{thing}吗？ > 能，网上有很多{thing}。
借{thing}用一下。 > {thing}在桌上，自己拿。 | 好，用完记得还我。
{team}赢了！ > {team}太棒了！ | 意料之中。
今晚{team}对{team2}，谁赢？ > {team}赢。 | 我猜{team2}赢。 | 不好说。
{team}输了。 > {team}下次会赢的。
你是{team}的球迷吗？ > 我支持{team}十年了。
跟我念：{phrase}。 > {phrase}。
我的签名是“{phrase}”。 > “{phrase}”，好有诗意。
"""

SLOT = re.compile(r"\{([a-z]+)(\d?)\}")


class Pattern(NamedTuple):
    """An utterance and one or more responses, with slots."""

    said: str
    responses: tuple[str, ...]


def parse_turns(text: str) -> list[Pattern]:
    """Return the patterns that the lines write down."""
    patterns: list[Pattern] = []
    for line in filter(None, text.splitlines()):
        said, _, responses = (part.strip() for part in line.partition(">"))
        found = tuple(response.strip() for response in responses.split("|"))
        patterns.append(Pattern(said, found))
    return patterns


def slots(text: str) -> list[str]:
    """Return the slots of a pattern's side, in their order, each once: "person", "person2"."""
    return list(dict.fromkeys(name + number for name, number in SLOT.findall(text)))


PATTERNS = parse_turns(TURNS)
