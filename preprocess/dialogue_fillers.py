"""Fillers of the slots of the synthetic dialogues: names, dishes, titles, numbers, all put together from parts.

A part is a list of words; where it has two halves, `a b / c d`, the sets of DS-II take the words before the slash for
training and those behind it for testing, and the sets of DS-I take both. So no filler is in both halves, and as the
words of the second are rarer, most of its fillers have a character that no filler of the first has.
"""

from collections.abc import Sequence
from random import Random

from corpus.chance import pick

PARTS = {
    "surname": """王 李 张 刘 陈 杨 赵 黄 周 吴 徐 孙 胡 朱 高 林 何 郭 马 罗 梁 宋 郑 谢 韩 唐 冯 于 董 萧 程
        曹 袁 邓 许 傅 沈 曾 彭 吕 / 苏 卢 蒋 蔡 贾 丁 魏 薛 叶 阎 余 潘 杜 戴 夏 钟 汪 姜 范 姚 谭 廖 邹 熊 陆
        郝 崔 邱 秦 侯 邵 孟 龚 尹 黎 乔 贺 赖 樊 殷""",
    "given": """伟 芳 娜 敏 静 丽 强 磊 军 洋 勇 艳 杰 娟 涛 明 超 秀 霞 平 刚 桂 英 华 慧 建 文 红 玉 兰 雪 梅
        海 波 宁 鹏 飞 云 志 国 / 琪 瑶 轩 涵 宇 晨 萱 睿 祺 昊 皓 妍 婷 嫣 蕾 薇 珊 倩 翔 骏 逸 铭 淇 菲 岚 彤
        楠 钰 颖 曦 屹 祎 煜 玥 瑾 婧 翎 韬 璇 桐""",
    "before": "小 阿 老",
    "nickname": """强 明 芳 华 丽 军 虎 燕 龙 胖 黑 白 石 林 海 雪 玉 平 宝 乐 飞 东 文 星 山 / 婷 薇 宇 轩 倩
        凯 琪 鑫 淼 旭 茜 蓓 晖 峰 岩 蔓 昕 棠 逸 柯 杉 葵 栗 禾 澜""",
    "town": """青 白 红 金 石 长 东 南 新 大 平 清 安 永 临 古 天 云 / 槐 柳 枫 鹭 桐 蓼 荷 菱 苇 翠 碧 檀 芦 榆
        霁 鹿 雁 蒲""",
    "land": "山 河 溪 桥 湖 林 泉 州 城 门 / 岭 湾 滩 渡 坪 浦 屿 坞 涧 矶",
    "rank": "镇 县 市 村",
    "way": "红烧 清蒸 麻辣 糖醋 油焖 凉拌 干煸 炭烤 家常 / 椒盐 酱爆 葱烧 剁椒 蒜蓉 卤汁 爆炒 泡椒 咖喱",
    "meat": """茄子 排骨 豆腐 鸡翅 土豆 牛肉 鲤鱼 虾仁 蘑菇 白菜 羊肉 南瓜 / 莴笋 鸭掌 鱿鱼 蛤蜊 芋艿 藕片 鲫鱼
        蹄筋 黄鳝 腐竹 鹌鹑 笋尖""",
    "flavour": """桂花 茉莉 红豆 芒果 草莓 柠檬 椰子 蜂蜜 苹果 香草 花生 西瓜 / 荔枝 薄荷 榛果 玫瑰 蓝莓 抹茶
        紫薯 石榴 菠萝 桑葚 焦糖 杨梅""",
    "drink": "奶茶 咖啡 果汁 豆浆 酸奶 汽水 米酒 冰沙",
    "mood": """寂寞 遥远 温柔 沉默 勇敢 年轻 安静 明亮 最后 蓝色 金色 迟到 / 斑斓 朦胧 缥缈 倔强 滚烫 孤傲 皎洁
        蹉跎 绯红 纯粹 懵懂 褪色""",
    "image": """月光 海岸 雨季 夜晚 城市 山谷 灯塔 火车 飞鸟 大雪 秋天 星空 / 萤火 蒲公英 鲸鱼 纸鸢 峡谷 驿站
        麦穗 琥珀 蝴蝶 帆船 彗星 屋檐""",
    "figure": """诗人 船长 木匠 猫 老人 公主 邮差 将军 歌者 少年 / 牧羊人 剑客 琴师 旅者 骑士 刺客 钟表匠 巫师 侦探
        幽灵""",
    "tale": "往事 手记 传说 之谜 来信 日记",
    "realm": "星海 大地 王国 森林 冰原 龙城 天空 沙漠 江湖 三国 / 苍穹 幻域 蒸汽 魔窟 深渊 霓虹 迷雾 炼狱 荒岛 云巅",
    "quest": "战记 守卫 英雄 争霸 冒险 传奇 / 猎魂 远征 狂飙 契约 崛起 谜踪",
    "month": "一月 二月 三月 四月 五月 六月 七月 八月 九月 十月 十一月 十二月",
    "day": """一 三 五 七 九 十一 十三 十五 十七 十九 二十一 二十三 二十五 二十七 / 二 四 六 八 十 十二 十四
        十六 十八 二十 二十二 二十四 二十六 二十八""",
    "hour": """早上六 早上七 早上八 上午九 上午十 中午十二 下午一 下午两 下午三 下午四 傍晚五 傍晚六 晚上七
        晚上八 晚上九 晚上十""",
    "minutes": "一刻 五分 二十分 四十分 / 半 十分 三刻 五十分",
    "teens": "十 二十 三十 四十 五十",
    "tens": "二十 三十 四十 五十 六十 七十 八十 九十",
    "one": "一 三 五 七 九 / 二 四 六 八",
    "digit": "0 1 2 3 4 5 6 7 8 9",
    "first": "1 3 5 7 9 / 2 4 6 8",
    "half": "块 块五",
    "pet": """豆 毛 球 花 咪 乐 宝 贝 多 福 来 点 米 糖 果 皮 虎 丁 妞 圆 / 嘟 啾 汤 饺 卷 酥 芝 麻 墩 铃 铛 喵
        呆 萌 蛋 茸 桃 馒 可 雷""",
    "animal": """老虎 狮子 猴子 狐狸 兔子 乌龟 鹦鹉 山羊 孔雀 松鼠 刺猬 企鹅 海豚 黑熊 仓鼠 青蛙 鸽子 鸭子 公鸡
        绵羊 黄狗 / 袋鼠 羚羊 蜥蜴 浣熊 水獭 猫头鹰 考拉 鸵鸟 海豹 蟋蟀 螃蟹 蜗牛 猎豹 天鹅 蝎子 鹌鹑 龙虾 麻雀
        蜘蛛 豪猪 雪貂""",
    "breed": "小 野生 一岁的 受伤的",
    "learn": "大学 中学 小学 学院",
    "field": "初级 高级 基础 现代",
    "study": """数学 英语 物理 化学 历史 地理 音乐 会计 法律 写作 体育 生物 / 逻辑 统计 天文 哲学 考古 测绘 遗传
        篆刻 雕塑 戏剧 书法 舞蹈""",
    "place_of_work": "医院 工厂 学校 公司 银行 机场 酒店 商场 / 剧院 矿山 码头 诊所 牧场 报社 邮局 影院",
    "job": "司机 会计 保安 清洁工 经理 厨师 电工 翻译 / 园丁 编辑 顾问 调度员 搬运工 绘图员 焊工 摄影师",
    "doing": """打篮球 踢足球 打羽毛球 游泳 跑步 爬山 下象棋 画画 唱歌 跳舞 看电影 听音乐 做饭 钓鱼 写诗 弹吉他
        打太极 种花 养鱼 骑车 打牌 拍照 下棋 做手工 看小说 打乒乓球 学英语 练书法 逛公园 玩游戏 做蛋糕 打排球
        拉小提琴 放风筝 / 滑雪 射箭 攀岩 潜水 练瑜伽 下围棋 刻印章 拉二胡 吹笛子 织毛衣 捏陶土 剪纸 拼积木 冲浪
        划船 练剑 弹古筝 烘焙 集邮 观鸟 露营 滑冰 击剑 茶艺 插花 赏月 敲鼓 采蘑菇 酿酒 摔跤 举重 蹦极 跳绳
        泡温泉""",
    "colour": "红色 白色 黑色 蓝色 绿色 黄色 / 紫色 灰色 粉色 褐色 橙色 银色",
    "object": """雨伞 手机 书包 帽子 钱包 钥匙 手表 耳机 自行车 台灯 / 围巾 眼镜 相机 毛毯 水壶 皮箱 口琴 打火机
        滑板 折扇""",
    "beast": "雄鹰 猛虎 飞马 狮王 海豚 火箭 / 猎豹 蛟龙 野牛 棕熊 蜂鸟 闪电",
    "owner": "老张 老王 老李 小刘 大陈 阿芳 阿明 胡家 林家 高家 / 老邹 老薛 小姚 阿琪 谭家 乔家 贺家 孟姐 潘嫂 熊叔",
    "sells": "面馆 饭店 烧烤 火锅 饺子馆 小吃 / 粥铺 羊汤 米粉 砂锅 酒楼 卤味",
    "when": "清晨 傍晚 春天 秋天 昨夜 雨后 / 黄昏 寒冬 黎明 盛夏 拂晓 霜降",
    "spot": "湖边 山上 河边 窗前 桥头 林中 / 崖畔 檐下 渡口 陌上 塔顶 亭间",
    "seeing": "看花 听雨 等你 读书 散步 望月 / 煮茶 观潮 垂钓 抚琴 赏菊 数星",
    "pass": "六十 七十 八十 九十",
}

# The forms of each type: the parts that are put together; a name that is no part stands for itself.
FORMS = {
    "person": ("surname given", "surname given given"),
    "nick": ("before nickname",),
    "place": ("town land rank", "town land"),
    "food": ("way meat",),
    "drink": ("flavour drink",),
    "shop": ("owner sells",),
    "song": ("mood 的 image",),
    "film": ("image 与 figure", "mood figure"),
    "book": ("image tale",),
    "game": ("realm quest",),
    "date": ("month day 号",),
    "time": ("hour 点 minutes",),
    "age": ("teens one",),
    "count": ("tens one", "一百 tens one"),
    "score": ("pass one", "一百 tens one"),
    "price": ("tens one half",),
    "code": ("first" + " digit" * 5, "first" + " digit" * 7),
    "pet": ("pet pet", "小 pet"),
    "animal": ("animal", "breed animal"),
    "school": ("town land learn",),
    "subject": ("field study",),
    "job": ("place_of_work job",),
    "hobby": ("doing",),
    "thing": ("colour 的 object",),
    "team": ("town land beast 队",),
    "phrase": ("when spot seeing",),
}
MAX_MISSES = 500  # repeated fillers in a row after which a pool holds all there are

HALVES = ("train", "test")


def words_of(part: str, halves: Sequence[str]) -> list[str]:
    """Return the words of a part in these of its halves, a name that is no part as itself."""
    text = PARTS.get(part, part)
    first, _, second = text.partition("/")
    chosen = {"train": first, "test": second or first}
    return list(dict.fromkeys(word for half in halves for word in chosen[half].split()))


def draw_pool(rng: Random, kind: str, halves: Sequence[str], size: int) -> list[str]:
    """Draw so many different fillers of one type, all that there are if they are fewer."""
    forms = [[words_of(part, halves) for part in form.split()] for form in FORMS[kind]]
    pool: dict[str, None] = {}
    misses = 0
    while len(pool) < size and misses < MAX_MISSES:
        filler = "".join(pick(rng, words) for words in pick(rng, forms))
        misses = misses + 1 if filler in pool else 0
        pool[filler] = None
    return list(pool)
